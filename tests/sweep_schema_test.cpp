// Compares sweeps/sweep.schema.json with the tree's sweeps and what their reader takes and refuses.
#include <gtest/gtest.h>

#include <sstream>

#include "harness/plan/sweep.h"
#include "harness/plan/sweep_file.h"
#include "tests/cli_fixture.h"
#include "tests/json_schema.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

const fs::path kSweeps = in_tree("sweeps");

const JsonSchema& sweep_schema() {
  static const JsonSchema kSchema(kSweeps / "sweep.schema.json");
  return kSchema;
}

TEST(SweepSchema, EveryFieldIsDescribed) { expect_described(sweep_schema()); }

TEST(SweepSchema, ShippedSweepsFit) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(kSweeps)) {
    if (!is_sweep_name(entry.path())) continue;
    ++count;
    expect_strict(sweep_schema(), Json::parse(read(entry.path())));
  }
  EXPECT_GT(count, 0);
}

const Json kSweep = Json::parse(R"({
  "$schema": "sweep.schema.json", "schema": "attnlab.sweep/1", "name": "all",
  "description": "Every key.", "backend": "cpu", "peers": ["torch:eager", "math, flash"],
  "axes": [
    {"pass": ["fwd", "bwd,fwdbwd"], "dtype": " f32 , f16", "layout": "bshd", "batch": [1, "2"],
     "heads": "2:8:x2", "heads_kv": 2, "head_dim": "1k,64", "mask": ["none", "causal+padding:7"],
     "lengths": ["drawn", "300+1k", "100x300+5x6"], "dropout": [0, 0.1, "5e-1"],
     "input_kind": "normal,outlier", "seed": [0, 9223372036854775807], "kernel": ["v1", "v2"],
     "block": "64x64,0x0", "sram": "16k", "warps": "0,8", "stages": [0, 3], "consumers": "2,3",
     "producer": "-1,0", "overlap": "0,1", "ping_pong": [0, "1"], "deterministic": [0, "1"],
     "schedule_seed": "0:3:+1", "tf32": "0,1"},
    {"seqlen_q": 1, "seqlen_k": "1k:16k:x4",
     "mask": "window:-1:0+blocks:bigbird:1:1:1:7:64x64,blocks:file=a pattern.txt:1x1"}
  ],
  "exclude": [{"where": {"kernel": ["v1", "torch:eager"], "seqlen": [8, "16"]}, "reason": "slow"}],
  "protocol": {"min_rounds": 1, "max_rounds": 2, "max_seconds": 0.001, "interval": 0,
               "warmup_seconds": 0, "verify_multiply_adds": 1, "verify_seconds": 0.01}
})");

std::string reader_says(const Json& sweep) {
  const TestFile file(".json", sweep.dump());
  return usage_error([&] { read_sweep(file.path(), builtin_registry()); });
}

TEST(SweepSchema, WhatTheReaderTakesFits) {
  expect_strict(sweep_schema(), kSweep);
  for (const char* patch : {
           "[]",
           R"([{"op": "remove", "path": "/$schema"}, {"op": "remove", "path": "/description"},
               {"op": "remove", "path": "/backend"}, {"op": "remove", "path": "/exclude"},
               {"op": "remove", "path": "/protocol"}])",
           R"([{"op": "replace", "path": "/axes", "value": {}}])",
           R"([{"op": "replace", "path": "/exclude", "value": []}])",
           R"([{"op": "replace", "path": "/protocol", "value": {}}])",
           R"([{"op": "replace", "path": "/protocol", "value": {
                "min_rounds": 100000, "max_rounds": 100000, "max_seconds": 86400, "interval": 1,
                "warmup_seconds": 3600, "verify_multiply_adds": 1125899906842624,
                "verify_seconds": 86400}}])",
       }) {
    const Json sweep = kSweep.patch(Json::parse(patch));
    EXPECT_EQ(reader_says(sweep), "") << patch;
    EXPECT_EQ(sweep_schema().violation(sweep), "") << patch;
  }
}

TEST(SweepSchema, WhatTheReaderRefusesDoesNotFit) {
  for (const char* patch : {
           R"([{"op": "remove", "path": "/schema"}])",
           R"([{"op": "remove", "path": "/name"}])",
           R"([{"op": "remove", "path": "/axes"}])",
           R"([{"op": "remove", "path": "/exclude/0/where"}])",
           R"([{"op": "remove", "path": "/exclude/0/reason"}])",
           R"([{"op": "replace", "path": "/$schema", "value": 1}])",
           R"([{"op": "replace", "path": "/schema", "value": "attnlab.sweep/2"}])",
           R"([{"op": "replace", "path": "/name", "value": "a/b"}])",
           R"([{"op": "replace", "path": "/name", "value": ""}])",
           R"([{"op": "replace", "path": "/description", "value": ""}])",
           R"([{"op": "replace", "path": "/backend", "value": "gpu"}])",
           R"([{"op": "replace", "path": "/axes", "value": []}])",
           R"([{"op": "replace", "path": "/axes", "value": "seqlen"}])",
           R"([{"op": "add", "path": "/axes/0/seqlne", "value": 4}])",
           R"([{"op": "add", "path": "/protocol/rounds", "value": 4}])",
           R"([{"op": "add", "path": "/exclude/0/why", "value": "slow"}])",
           R"([{"op": "add", "path": "/exclude/0/where/keys", "value": 4}])",
           R"([{"op": "replace", "path": "/exclude/0/where", "value": {}}])",
           R"([{"op": "replace", "path": "/exclude", "value": {}}])",
           R"([{"op": "replace", "path": "/axes/0/pass", "value": "fwd,"}])",
           R"([{"op": "replace", "path": "/axes/0/pass", "value": "forward"}])",
           R"([{"op": "replace", "path": "/axes/0/dtype", "value": "f64"}])",
           R"([{"op": "replace", "path": "/axes/0/layout", "value": 1}])",
           R"([{"op": "replace", "path": "/axes/0/batch", "value": 0}])",
           R"([{"op": "replace", "path": "/axes/0/batch", "value": 1.5}])",
           R"([{"op": "replace", "path": "/axes/0/batch", "value": 2147483649}])",
           R"([{"op": "replace", "path": "/axes/0/batch", "value": [[1]]}])",
           R"([{"op": "replace", "path": "/axes/0/batch", "value": []}])",
           R"([{"op": "replace", "path": "/axes/0/batch", "value": true}])",
           R"([{"op": "replace", "path": "/axes/0/batch", "value": null}])",
           R"([{"op": "replace", "path": "/axes/0/heads", "value": "2:8"}])",
           R"([{"op": "replace", "path": "/axes/0/heads", "value": "2:8:*2"}])",
           R"([{"op": "replace", "path": "/axes/0/heads", "value": "4m"}])",
           R"([{"op": "replace", "path": "/axes/0/mask", "value": "casual"}])",
           R"([{"op": "replace", "path": "/axes/0/mask", "value": "window:3"}])",
           R"([{"op": "replace", "path": "/axes/0/mask", "value": "blocks:butterfly"}])",
           R"([{"op": "replace", "path": "/axes/0/lengths", "value": "3x4x5"}])",
           R"([{"op": "replace", "path": "/axes/0/lengths", "value": "3+"}])",
           R"([{"op": "replace", "path": "/axes/0/dropout", "value": 1}])",
           R"([{"op": "replace", "path": "/axes/0/dropout", "value": "nan"}])",
           R"([{"op": "add", "path": "/axes/0/softmax_scale", "value": -1}])",
           R"([{"op": "add", "path": "/axes/0/softmax_scale", "value": "auto"}])",
           R"([{"op": "replace", "path": "/axes/0/input_kind", "value": "file"}])",
           R"([{"op": "replace", "path": "/axes/0/seed", "value": -1}])",
           R"([{"op": "replace", "path": "/axes/0/kernel", "value": "v-2"}])",
           R"([{"op": "replace", "path": "/axes/0/block", "value": 64}])",
           R"([{"op": "replace", "path": "/axes/0/sram", "value": -1}])",
           R"([{"op": "replace", "path": "/axes/0/sram", "value": [64, 1048577]}])",
           R"([{"op": "replace", "path": "/axes/0/deterministic", "value": 2}])",
           R"([{"op": "replace", "path": "/axes/0/schedule_seed", "value": -1}])",
           R"([{"op": "replace", "path": "/axes/0/tf32", "value": 2}])",
           R"([{"op": "replace", "path": "/protocol/min_rounds", "value": 0}])",
           R"([{"op": "replace", "path": "/protocol/max_rounds", "value": 1e2}])",
           R"([{"op": "replace", "path": "/protocol/min_rounds", "value": 100001}])",
           R"([{"op": "replace", "path": "/protocol/max_rounds", "value": 100001}])",
           R"([{"op": "replace", "path": "/protocol/max_seconds", "value": 86401}])",
           R"([{"op": "replace", "path": "/protocol/warmup_seconds", "value": 3601}])",
           R"([{"op": "replace", "path": "/protocol/verify_multiply_adds",
                "value": 1125899906842625}])",
           R"([{"op": "replace", "path": "/protocol/max_seconds", "value": 0}])",
           R"([{"op": "replace", "path": "/protocol/interval", "value": 1.5}])",
           R"([{"op": "replace", "path": "/protocol/interval", "value": -1}])",
           R"([{"op": "replace", "path": "/protocol/warmup_seconds", "value": -1}])",
           R"([{"op": "replace", "path": "/protocol/warmup_seconds", "value": "1"}])",
           R"([{"op": "replace", "path": "/protocol/verify_multiply_adds", "value": 0}])",
           R"([{"op": "replace", "path": "/protocol/verify_seconds", "value": 0}])",
           R"([{"op": "replace", "path": "/protocol/verify_seconds", "value": 86401}])",
       }) {
    const Json sweep = kSweep.patch(Json::parse(patch));
    EXPECT_NE(reader_says(sweep), "") << patch;
    EXPECT_NE(sweep_schema().violation(sweep), "") << patch;
  }
}

std::set<std::string> keys_of(const Json& schema) {
  std::set<std::string> keys;
  for (const auto& item : schema["properties"].items()) keys.insert(item.key());
  return keys;
}

// Returns the keys that the reader offers where it finds one that it does not know.
std::set<std::string> keys_known(const char* place_of_an_unknown_one) {
  Json sweep = kSweep;
  sweep[Json::json_pointer(place_of_an_unknown_one)] = 1;
  const std::string message = reader_says(sweep);
  const std::string start = "'?'; there are: ";
  const std::size_t begin = message.find(start);
  EXPECT_NE(begin, std::string::npos) << message;
  std::istringstream stream(message.substr(begin + start.size()));
  std::set<std::string> keys;
  for (std::string key; stream >> key;) keys.insert(key.substr(0, key.find(',')));
  return keys;
}

TEST(SweepSchema, KeysAreThoseThatTheReaderKnows) {
  const Json& definitions = sweep_schema().json()["definitions"];
  EXPECT_EQ(keys_of(sweep_schema().json()), keys_known("/?"));
  EXPECT_EQ(keys_of(definitions["axes"]), keys_known("/axes/0/?"));
  EXPECT_EQ(keys_of(definitions["axes"]), keys_known("/exclude/0/where/?"));
  EXPECT_EQ(keys_of(definitions["exclusion"]), keys_known("/exclude/0/?"));
  EXPECT_EQ(keys_of(definitions["protocol"]), keys_known("/protocol/?"));
}

TEST_F(Cli, ListTakesNoSchemaForASweep) {
  fs::copy(kSweeps / "sweep.schema.json", folder_);
  EXPECT_PRED2(contains, run("list --sweeps .").out, "none; name another folder");
}

}  // namespace
}  // namespace attnlab
