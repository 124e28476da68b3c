// The GPUs are fakes, and a shell script stands in place of this program.
#include "harness/session/device_runs.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/record/record_file.h"
#include "harness/session/device_lock.h"
#include "harness/testing/test_support.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Device> gpus(int count) {
  std::vector<Device> all;
  for (int i = 0; i < count; ++i) {
    all.push_back({.backend = Backend::cuda,
                   .name = "fake",
                   .ordinal = i,
                   .uuid = "GPU-" + std::to_string(i)});
  }
  return all;
}

// Writes one record, whose reason says what it was given: its GPU, its shard, and whether the lock
// of that GPU is held.
constexpr const char* kScript = R"(
for word; do
  case $word in
    --shard=*) shard=${word#*=} ;;
    --resume=*) file=${word#*=} ;;
  esac
done
index=${shard%/*}
lock=$ATTNLAB_LOCK_FOLDER/attnlab-GPU-$CUDA_VISIBLE_DEVICES.lock
flock -n "$lock" true && held=free || held=held
[ -z "$BREAKS" ] || [ "$BREAKS" != "$index" ] || { echo "no such kernel" >&2; exit "${CODE:-2}"; }
sed "s|REASON|$CUDA_VISIBLE_DEVICES $shard $held|; s|INDEX|$index|g; s|OF|${shard#*/}|" \
  "$ATTNLAB_LOCK_FOLDER/record" >>"$file"
)";

class DeviceRunsTest : public testing::Test {
 protected:
  DeviceRunsTest() {
    setenv("ATTNLAB_LOCK_FOLDER", folder_.path().c_str(), 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    write("fake.sh", kScript);
    write("record",
          R"({"schema":"attnlab.record/1","id":"fwd/f32/b1/hq1/hkv1/sqINDEX/sk8/d8/none",)"
          R"("key":"k/seed1/hot","sweep":"s",)"
          R"("shard":{"index":INDEX,"of":OF,"cut":"0123456789abcdef","points":1,"share":1.0},)"
          R"("kernel":"v2","backend":"cuda","config":{},"input_kind":"normal","seed":1,)"
          R"("status":"ok","reason":"REASON","device":{"name":"fake"},)"
          R"("protocol":{"cache":"hot"},"timestamp":"2026-01-01T00:00:00Z"})"
          "\n");
  }
  ~DeviceRunsTest() override {
    unsetenv("ATTNLAB_LOCK_FOLDER");
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("BREAKS");
    unsetenv("CODE");
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
  }
  DeviceRuns runs(std::vector<Device> devices) const {
    return {.devices = std::move(devices),
            .command = {"sh", (folder_.path() / "fake.sh").string()},
            .program = "/bin/sh",
            .records = folder_.path() / "r.jsonl",
            .shows_progress = false};
  }
  Texts reasons() const {
    std::vector<std::string> warnings;
    Texts all;
    for (const Json& record : read_records(folder_.path() / "r.jsonl", warnings)) {
      all.push_back(record["reason"]);
    }
    return all;
  }

  TestFolder folder_;
};

TEST_F(DeviceRunsTest, EachGpuHasAProcessAShardAndItsLock) {
  run_on_devices(runs(choose_devices("0,2", gpus(3))));
  EXPECT_EQ(reasons(), (Texts{"0 1/2 held", "2 2/2 held"}));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "r.2of2.jsonl"));
}

// The GPUs that a process sees are numbered from 0, whatever the machine calls them.
TEST_F(DeviceRunsTest, AGpuIsShownByTheWordThatShowedIt) {
  EXPECT_EQ(visible_device(gpus(2)[1], ""), "1");
  EXPECT_EQ(visible_device(gpus(2)[1], "4,MIG-7"), "MIG-7");
}

TEST_F(DeviceRunsTest, NeverTwoOnOneGpu) {
  const DeviceLock lock(gpus(2)[1]);
  try {
    run_on_devices(runs(gpus(2)));
    FAIL() << "ran beside a gate";
  } catch (const std::runtime_error& error) {
    EXPECT_PRED2(contains, error.what(), "measures on this device");
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "r.1of2.jsonl"));
}

TEST_F(DeviceRunsTest, WhatIsThereIsGoneOnWithOrRefused) {
  run_on_devices(runs(gpus(2)));
  EXPECT_PRED2(contains, usage_error([&] { run_on_devices(runs(gpus(2))); }), "is there already");
  DeviceRuns again = runs(gpus(2));
  again.resumes = true;
  run_on_devices(again);
  EXPECT_EQ(reasons().size(), 2u);
  again.devices = gpus(3);
  EXPECT_PRED2(contains, usage_error([&] { run_on_devices(again); }),
               "is of another number of GPUs than these 3");
}

TEST_F(DeviceRunsTest, AProcessThatBreaksOffIsSaidAndTheOthersKept) {
  setenv("BREAKS", "2", 1);
  try {
    run_on_devices(runs(gpus(2)));
    FAIL() << "a broken process is no success";
  } catch (const std::runtime_error& error) {
    EXPECT_PRED2(contains, error.what(), "r.2of2.jsonl ended with exit code 2: no such kernel;");
    EXPECT_PRED2(contains, error.what(), "--resume");
  }
  EXPECT_EQ(reasons(), Texts{"0 1/2 held"});
}

// The script ends with the code of an invalid measurement, as where a GPU is lost.
TEST_F(DeviceRunsTest, AShardThatIsNotWholeIsNoSuccess) {
  setenv("BREAKS", "2", 1);
  setenv("CODE", "3", 1);
  EXPECT_THROW(run_on_devices(runs(gpus(2))), std::runtime_error);
}

// The second GPU has no word that would show it; the first one's process would run for a minute.
TEST_F(DeviceRunsTest, NoneOutlivesAFailedStartOfTheNext) {
  setenv("CUDA_VISIBLE_DEVICES", "4", 1);
  write("fake.sh", "exec sleep 60");
  EXPECT_THROW(run_on_devices(runs(gpus(2))), std::exception);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process is left, running or not waited for";
  EXPECT_EQ(errno, ECHILD);
  const DeviceLock first(gpus(1)[0]);
}

TEST_F(DeviceRunsTest, OtherFilesAreNoParts) {
  write("r.softmax.jsonl", "");
  run_on_devices(runs(gpus(2)));
  EXPECT_EQ(reasons().size(), 2u);
}

TEST_F(DeviceRunsTest, UnlikeGpusAreRefused) {
  std::vector<Device> unlike = gpus(2);
  unlike[1].name = "other";
  EXPECT_PRED2(contains, usage_error([&] { run_on_devices(runs(unlike)); }), "are unlike");
}

TEST_F(DeviceRunsTest, GpusAreChosenByNumberOnce) {
  EXPECT_EQ(choose_devices("all", gpus(3)).size(), 3u);
  EXPECT_EQ(choose_devices("2", gpus(3)).at(0).uuid, "GPU-2");
  for (const auto& [text, message] :
       {std::pair("3",
                  "--devices: '3' is none of the 3 GPUs here: write all, or numbers from 0 to 2"),
        std::pair("0,x", "'x' is none"), std::pair("1,1", "--devices: 1 is given twice")}) {
    EXPECT_PRED2(contains, usage_error([&, words = text] { choose_devices(words, gpus(3)); }),
                 message);
  }
}

}  // namespace
}  // namespace attnlab
