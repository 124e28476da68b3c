#include "harness/measure/peaks.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "harness/testing/test_peaks.h"
#include "harness/testing/test_support.h"
#include "kernels/api/compiler.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Gives the test a cache folder of its own.
class PeaksFile : public testing::Test {
 protected:
  PeaksFile() { set_compiler({.cache_folder = folder_.path().string()}); }
  ~PeaksFile() override {
    set_compiler({});
    fs::remove_all(folder_.path());
  }

  void write(const std::string& text) const {
    fs::create_directories(peaks_file(h200()).parent_path());
    std::ofstream(peaks_file(h200())) << text;
  }
  // Returns what reading the file says; "" if it is good.
  std::string complaint() const {
    return usage_error([] { load_peaks(h200()); });
  }
  std::string complaint_about(const std::function<void(Json&)>& change) const {
    Json json = to_json(h200_peaks());
    change(json);
    write(json.dump());
    return complaint();
  }

  TestFile folder_{"-not-a-file", ""};

 private:
  void SetUp() override { fs::remove(folder_.path()); }
};

void expect_same(const CeilingRate& a, const CeilingRate& b) {
  EXPECT_EQ(a.per_s, b.per_s);
  EXPECT_EQ(a.clock_hz, b.clock_hz);
}

TEST_F(PeaksFile, GivesBackWhatWasSaved) {
  EXPECT_FALSE(load_peaks(h200()).has_value());
  Peaks saved = h200_peaks();
  saved.ceilings[2] = {.id = CeilingId::tensor_tf32, .reason = "there is no cuBLAS"};
  save_peaks(saved, peaks_file(h200()));
  const Peaks loaded = load_peaks(h200()).value();
  EXPECT_EQ(to_json(loaded), to_json(saved));
  ASSERT_EQ(loaded.ceilings.size(), kCeilings);
  expect_same(loaded.ceilings[0].settled, saved.ceilings[0].settled);
  expect_same(loaded.ceilings[0].burst, saved.ceilings[0].burst);
  EXPECT_EQ(find_ceiling(loaded, CeilingId::tensor_tf32), nullptr);
  EXPECT_EQ(find_ceiling(loaded, CeilingId::ex2)->how, "by a test");
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(peaks_file(h200()).parent_path())) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(files, 1U);  // nothing temporary stays
}

TEST_F(PeaksFile, IsNamedByDeviceAndDriver) {
  EXPECT_EQ(peaks_file(h200()), folder_.path() / "peaks" / "NVIDIA_H200-580.159.04.json");
  Device other = h200();
  other.driver = "../1";
  EXPECT_EQ(peaks_file(other).filename(), "NVIDIA_H200-.._1.json");
  EXPECT_FALSE(load_peaks(other).has_value());
}

TEST_F(PeaksFile, WhatIsWrongIsNamedWithTheRemedy) {
  for (const char* text : {"", "{", "[]", "nonsense", "{\"schema\": \"attnlab.peaks/2\"}",
                           "{\"schema\": \"attnlab.record/1\"}", "{\"schema\": 1}"}) {
    SCOPED_TRACE(text);
    write(text);
    EXPECT_PRED2(contains, complaint(), peaks_file(h200()).string());
    EXPECT_PRED2(contains, complaint(), "attnlab peak --again");
  }
  EXPECT_PRED2(contains, complaint(), "attnlab.peaks/1");
}

TEST_F(PeaksFile, EveryRateIsAPositiveNumber) {
  EXPECT_EQ(complaint_about([](Json&) {}), "");
  for (const char* which : {"burst", "settled"}) {
    for (const char* key : {"per_s", "clock_hz"}) {
      for (const Json& value : {Json("nan"), Json(nullptr), Json(0), Json(-1.0), Json(true)}) {
        SCOPED_TRACE(value.dump());
        const auto change = [&](Json& json) { json["ceilings"][3][which][key] = value; };
        EXPECT_PRED2(contains, complaint_about(change), "no positive number");
      }
    }
  }
  std::string text = to_json(h200_peaks()).dump();
  for (const char* value : {"NaN", "1e999", "Infinity"}) {
    std::string changed = text;
    const std::size_t begin = changed.find("\"per_s\":") + 8;
    changed.replace(begin, changed.find(',', begin) - begin, value);
    write(changed);
    EXPECT_PRED2(contains, complaint(), "is not JSON") << value;
  }
}

TEST_F(PeaksFile, KeysAreThoseOfTheFormat) {
  const std::pair<const char*, std::function<void(Json&)>> changes[] = {
      {"lacks 'commit'", [](Json& json) { json.erase("commit"); }},
      {"'more' that is not known", [](Json& json) { json["more"] = 1; }},
      {"lacks 'reason'", [](Json& json) { json["ceilings"][0].erase("reason"); }},
      {"lacks 'clock_hz'", [](Json& json) { json["ceilings"][0]["burst"].erase("clock_hz"); }},
      {"no ceiling 'tensor'", [](Json& json) { json["ceilings"][0]["id"] = "tensor"; }},
      {"its unit is FLOP/s", [](Json& json) { json["ceilings"][0]["unit"] = "B/s"; }},
      {"'tensor_f16' is given twice",
       [](Json& json) { json["ceilings"][1] = json["ceilings"][0]; }},
      {"a reason why it has none", [](Json& json) { json["ceilings"][0]["reason"] = "x"; }},
      {"a rate is no object", [](Json& json) { json["ceilings"][0]["burst"] = nullptr; }},
      {"no array", [](Json& json) { json["ceilings"] = "none"; }},
      {"no count", [](Json& json) { json["multiprocessors"] = 1.5; }},
      {"device: is no text", [](Json& json) { json["device"] = 1; }},
  };
  for (const auto& [expected, change] : changes) {
    EXPECT_PRED2(contains, complaint_about(change), expected);
  }
}

TEST_F(PeaksFile, IsOfTheDeviceThatAsks) {
  for (const char* key : {"device", "driver"}) {
    EXPECT_PRED2(contains, complaint_about([&](Json& json) { json[key] = "other"; }), "other");
  }
  EXPECT_PRED2(contains, complaint_about([](Json& json) { json["multiprocessors"] = 66; }),
               "66 multiprocessors");
}

TEST_F(PeaksFile, ARunGetsThemOrTheReason) {
  EXPECT_PRED2(contains, known_peaks(h200()).reason, "attnlab peak");
  write("{");
  EXPECT_PRED2(contains, known_peaks(h200()).reason, "attnlab peak --again");
  save_peaks(h200_peaks(), peaks_file(h200()));
  EXPECT_EQ(known_peaks(h200()).reason, "");
  EXPECT_TRUE(known_peaks(h200()).peaks.has_value());
  EXPECT_PRED2(contains, known_peaks({.name = "a CPU"}).reason, "GPU");
}

TEST_F(PeaksFile, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder_.path()) << "in the way";
  const std::string message = usage_error([] { save_peaks(h200_peaks(), peaks_file(h200())); });
  EXPECT_PRED2(contains, message, "--cache-dir");
}

}  // namespace
}  // namespace attnlab
