// Tests attnlab run --input and --save: the user's own tensors, in and out of the real binary.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "harness/tensors/safetensors.h"
#include "kernels/api/hash.h"
#include "tests/cli_fixture.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFast = " --rounds 2 --protocol warmup_seconds=0 --no-progress ";

class CliTensors : public Cli {
 protected:
  Result run_fast(const std::string& arguments) const { return run("run " + arguments + kFast); }

  SafetensorsFile saved(const std::string& name) const { return read_safetensors(folder_ / name); }

  Json record(const std::string& name) const { return Json::parse(read(folder_ / name)); }

  // Writes q, k, v [1, rows, 2, 4] in f32, with other names for some tests.
  void write_qkv(const std::string& name, float first = 0.25f, const char* third = "v") const {
    std::vector<float> values(6 * 2 * 4, 0.5f);
    values[0] = first;
    const TensorView view = {
        .dtype = "F32", .shape = {1, 6, 2, 4}, .bytes = std::as_bytes(std::span(values))};
    write_safetensors(folder_ / name, {{"q", view}, {"k", view}, {third, view}}, {});
  }

  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
};

// Expects the same, bit by bit.
void expect_same(const SafetensorsFile& one, const SafetensorsFile& other) {
  ASSERT_EQ(one.tensors.size(), other.tensors.size());
  for (const auto& [name, view] : one.tensors) {
    const TensorView& twin = other.tensors.at(name);
    EXPECT_EQ(view.dtype, twin.dtype) << name;
    EXPECT_EQ(view.shape, twin.shape) << name;
    ASSERT_EQ(view.bytes.size(), twin.bytes.size()) << name;
    EXPECT_EQ(std::memcmp(view.bytes.data(), twin.bytes.data(), view.bytes.size()), 0) << name;
  }
}

struct Trip {
  const char* name;
  const char* sizes;
  const char* rest;     // what a file does not say
  const char* tensors;  // that are saved, in the order of a map
};
void PrintTo(const Trip& trip, std::ostream* stream) { *stream << trip.name; }

const Trip kTrips[] = {
    {"forward", "--heads 2 --head-dim 8 --seqlen-q 20 --seqlen-k 33", "--kernel v2 --mask causal",
     "k,lse,o,q,v,"},
    {"backward", "--batch 2 --heads 4 --heads-kv 2 --head-dim 16 --seqlen 24 --dtype f16",
     "--kernel v2 --pass bwd --layout bhsd --deterministic 1 --mask window:7:0",
     "dk,do,dq,dv,k,lse,o,q,v,"},
    {"dropout", "--heads 2 --head-dim 8 --seqlen 40 --dtype bf16",
     "--kernel naive --pass fwdbwd --dropout 0.25 --seed 3 --save-dropout",
     "dk,do,dq,dropout_keep,dv,k,lse,o,q,v,"},
    {"blocks", "--heads 1 --head-dim 8 --seqlen 32", "--kernel v2 --mask blocks:local:1:16x16",
     "block_pattern,k,lse,o,q,v,"},
    {"packed", "--batch 2 --heads 2 --head-dim 8 --seqlen 30 --lengths 7x20+30",
     "--kernel v1 --pass fwdbwd --layout packed --mask causal",
     "cu_seqlens_k,cu_seqlens_q,dk,do,dq,dv,k,lse,o,q,v,"},
    {"padding", "--batch 2 --heads 2 --head-dim 8 --seqlen 30", "--kernel v3 --mask padding:5",
     "k,lse,o,q,v,"},
};

class CliRoundTrip : public CliTensors, public testing::WithParamInterface<Trip> {
 protected:
  void SetUp() override {
    CliTensors::SetUp();
    const std::string rest = std::string(" ") + GetParam().rest;
    // The kind must not be the one that would be drawn if the file were not read.
    const std::string inputs = " --input-kind uniform";
    first_ = run_fast(GetParam().sizes + rest + inputs + " --out a.jsonl --save a.st");
    ASSERT_EQ(first_.code, 0) << first_.err;
  }
  Result first_;
};

TEST_P(CliRoundTrip, WhatARunSavedGivesTheSameBitsAgain) {
  const std::string rest = std::string(" ") + GetParam().rest;
  std::string names;
  for (const auto& [name, view] : saved("a.st").tensors) names += name + ",";
  EXPECT_EQ(names, GetParam().tensors);
  EXPECT_PRED2(contains, first_.out,
               "\n  python3 " + in_tree("scripts/check_saved.py") + " a.st\n");
  EXPECT_PRED2(contains, first_.out, ", which passed");

  const Result second = run_fast("--input a.st" + rest + " --out b.jsonl --save b.st");
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_PRED2(contains, second.out, "Inputs: q, k, v of a.st");
  expect_same(saved("a.st"), saved("b.st"));
  const Json drawn = record("a.jsonl"), given = record("b.jsonl");
  EXPECT_EQ(drawn["id"], given["id"]);
  EXPECT_TRUE(drawn["input_file"].is_null());
  EXPECT_EQ(given["input_kind"], "file");
  EXPECT_EQ(given["input_file"]["path"], "a.st");
  const std::string bytes = read(folder_ / "a.st");
  const std::string hash = given["input_file"]["fnv1a"];
  EXPECT_EQ(std::stoull(hash, nullptr, 16), fnv1a(bytes.data(), bytes.size()));
  EXPECT_PRED2(contains, given["key"].get<std::string>(), "/file:" + hash + "/");
}

// Returns a Python that has NumPy: the first may be somebody's own; "" if there is none.
std::string python_with_numpy() {
  for (const std::string python : {"python3", "/usr/bin/python3"}) {
    if (std::system((python + " -c 'import numpy' 2>/dev/null").c_str()) == 0) return python;
  }
  return "";
}

TEST_P(CliRoundTrip, NumPyAgrees) {
  const std::string python = python_with_numpy();
  if (python.empty()) GTEST_SKIP() << "no python3 has NumPy (scripts/setup.sh brings it)";
  const std::string check = python + " '" + in_tree("scripts/check_saved.py") + "' '" +
                            (folder_ / "a.st").string() + "' >/dev/null";
  EXPECT_EQ(std::system(check.c_str()), 0);
}

INSTANTIATE_TEST_SUITE_P(Files, CliRoundTrip, testing::ValuesIn(kTrips),
                         [](const auto& trip) { return std::string(trip.param.name); });

TEST_F(CliTensors, ADOThatTheFileLacksIsDrawnAndSaid) {
  write_qkv("q.st");
  const std::string rest = " --kernel v2 --pass bwd ";
  const Result one = run_fast("--input q.st --out a.jsonl --save a.st" + rest);
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_PRED2(contains, one.out, "It has no do: dO is drawn from the seed.");
  EXPECT_EQ(record("a.jsonl")["input_file"]["do"], "drawn");
  const Result two = run_fast("--input a.st --out b.jsonl --save b.st" + rest);
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_PRED2(contains, two.out, "dO is its do.");
  EXPECT_EQ(record("b.jsonl")["input_file"]["do"], "file");
  ASSERT_EQ(run_fast("--input q.st --seed 8 --out c.jsonl --save c.st" + rest).code, 0);
  const auto dout = [&](const char* name) {
    const SafetensorsFile file = saved(name);
    const auto bytes = file.tensors.at("do").bytes;
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  EXPECT_EQ(dout("a.st"), dout("b.st"));
  EXPECT_NE(dout("a.st"), dout("c.st"));
}

// All types hold these integers, so what is drawn in each of them is quantised to the same codes.
TEST_F(CliTensors, AFileIsQuantisedLikeWhatIsDrawn) {
  const std::string sizes = " --batch 2 --heads 4 --heads-kv 2 --head-dim 16 --seqlen 150 ";
  const std::string rest = " --kernel v3 --layout bhsd --input-kind integers " + sizes;
  const std::string quantised = " --kernel v3 --layout bhsd --dtype e4m3 --quant block --rotate 1 ";
  ASSERT_EQ(run_fast(quantised + sizes + "--input-kind integers --out a.jsonl --save a.st").code,
            0);
  for (const std::string dtype : {"f32", "f16", "bf16"}) {
    SCOPED_TRACE(dtype);
    ASSERT_EQ(run_fast(fmt::format("--dtype {}{} --save q.st", dtype, rest)).code, 0);
    const Result result = run_fast("--input q.st" + quantised + " --out b.jsonl --save b.st");
    ASSERT_EQ(result.code, 0) << result.err;
    std::string out = result.out;
    std::ranges::replace(out, '\n', ' ');
    EXPECT_PRED2(contains, out, " They are " + dtype + " and are quantised to e4m3.");
    expect_same(saved("a.st"), saved("b.st"));
    const Json drawn = record("a.jsonl"), given = record("b.jsonl");
    EXPECT_EQ(drawn["id"], given["id"]);
    EXPECT_EQ(given["input_file"]["dtype"], dtype);
    EXPECT_EQ(drawn["verify"][0]["rmse_unquantised"], given["verify"][0]["rmse_unquantised"]);
    std::filesystem::remove(folder_ / "b.jsonl");
  }
}

TEST_F(CliTensors, FilesOfTheSameSizesAreDifferentPoints) {
  write_qkv("one.st");
  write_qkv("two.st", 0.75f);
  for (const char* file : {"one.st", "two.st"}) {
    const Result result = run_fast("--kernel naive,v2 --out r.jsonl --input " + std::string(file));
    ASSERT_EQ(result.code, 0) << result.err;
  }
  const Result table = run("table r.jsonl");
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_PRED2(contains, table.out, "4 points: 4 ok");
  EXPECT_PRED2(contains, table.out, "one.st#");
  EXPECT_PRED2(contains, table.out, "two.st#");
  EXPECT_EQ(count_lines(run("table r.jsonl --format csv --value time_ms").out), 5u);
}

TEST_F(CliTensors, WhatIsNotVerifiedIsNotSaved) {
  const Result result =
      run_fast("--kernel v2 --seqlen 64 --memory-limit 1K --out r.jsonl --save a.st");
  EXPECT_EQ(result.code, 3);
  EXPECT_PRED2(contains, result.out,
               "Saved nothing to a.st: the point is out_of_memory and was not verified.");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a.st"));
}

TEST_F(CliTensors, ADryRunSavesNothing) {
  write_qkv("q.st");
  const Result result = run_fast("--input q.st --kernel v2 --save a.st --dry-run");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_PRED2(contains, result.out, "fwd/f32/b1/hq2/hkv2/sq6/sk6/d4/");
  EXPECT_EQ(files(), 1u);
}

TEST_F(CliTensors, BadUsageIsExitTwoAndWritesNothing) {
  write_qkv("q.st");
  write_qkv("nan.st", NAN);
  write_qkv("w.st", 0.25f, "w");
  write("torn.st", read(folder_ / "q.st").substr(0, 200));
  write("text.st", "q k v");
  write("s.json", R"({"schema": "attnlab.sweep/1", "name": "s", "axes": {"seqlen": 4}})");
  const std::size_t before = files();
  const std::pair<const char*, const char*> cases[] = {
      {"--input nowhere.st", "--input: nowhere.st"},
      {"--input nan.st", "nan.st: tensor 'q': holds NaN or infinity at [0, 0, 0, 0]"},
      {"--input w.st", "w.st: tensor 'w': would be ignored"},
      {"--input torn.st", "--input: torn.st: "},
      {"--input text.st", "--input: text.st: "},
      {"--input q.st --layout packed", "q.st: tensor 'q': is F32 [1, 6, 2, 4], but layout packed"},
      {"--input q.st --layout bshd,bhsd", "q.st: a file has one layout, but --layout names 2"},
      {"--input q.st --dtype f32",
       "--dtype: --input's file says this itself: leave the flag out, "
       "or take e4m3 alone, to which it is quantised"},
      {"--input q.st --dtype e4m3,f16", "--dtype: --input's file says this itself"},
      {"--input nan.st --dtype e4m3", "nan.st: tensor 'q': holds NaN or infinity at [0, 0, 0, 0]"},
      {"--input q.st --batch 1", "--batch: --input's file"},
      {"--input q.st --heads 2", "--heads: --input's file"},
      {"--input q.st --heads-kv 2", "--heads-kv: --input's file"},
      {"--input q.st --head-dim 4", "--head-dim: --input's file"},
      {"--input q.st --seqlen 6", "--seqlen: --input's file"},
      {"--input q.st --seqlen-q 6", "--seqlen-q: --input's file"},
      {"--input q.st --seqlen-k 6", "--seqlen-k: --input's file"},
      {"--input q.st --lengths drawn", "--lengths: --input's file"},
      {"--input q.st --input-kind normal", "--input-kind: --input's file"},
      {"s.json --input q.st", "--input: the sizes come from the file, so there is no place for"},
      {"--seqlen 8 --input-kind file", "--input-kind: 'file' is unknown"},
      {"--input q.st --save a.st", "--save: needs exactly one case and one kernel"},
      {"--seqlen 8,16 --kernel v2 --save a.st", "2 cases with 2 points"},
      {"--seqlen 8 --kernel v2 --block 16x16,32x32 --save a.st", "1 case with 2 points"},
      {"--seqlen 8 --kernel v2 --save-dropout", "--save-dropout: adds to --save FILE"},
      {"--seqlen 8 --kernel v2 --save no/a.st", "--save: no/a.st: there is no folder no"},
      {"--seqlen 8 --kernel v2 --save .", "--save: .: is there and is not a regular file"},
      {"--seqlen 8 --kernel v2 --save a.st --out ./a.st", "--save: a.st is also the file of --out"},
      {"--input q.st --kernel v2 --save ./q.st", "--save: ./q.st is also the file of --input"},
      {"--input q.st --kernel v2 --out ./q.st", "--out: ./q.st is also the file of --input"},
      {"--seqlen 32k --heads 64 --kernel v2 --memory-limit 1G --save a.st --save-dropout",
       "--save-dropout: the mask needs 64 GiB of 1 available"},
  };
  for (const auto& [arguments, message] : cases) {
    const Result result = run_fast(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_PRED2(contains, result.err, message);
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_EQ(files(), before) << arguments;
  }
}

}  // namespace
}  // namespace attnlab
