// Compares results/record.schema.json with the tree's records and those that the binary writes.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "harness/record/record.h"
#include "harness/record/record_file.h"
#include "harness/record/record_json.h"
#include "harness/run/case_steps.h"
#include "harness/run/run.h"
#include "harness/testing/fake_kernels.h"
#include "tests/cli_fixture.h"
#include "tests/gpu_records.h"
#include "tests/json_schema.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

const fs::path kTree = in_tree("");

const JsonSchema& record_schema() {
  static const JsonSchema kSchema(kTree / "results/record.schema.json");
  return kSchema;
}

std::vector<Json> lines_of(const fs::path& file) {
  std::vector<Json> records;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) records.push_back(Json::parse(line));
  EXPECT_FALSE(records.empty()) << file;
  return records;
}

// A kernel that writes nothing fails, one that throws is invalid: no kernel of the tree does.
std::vector<Json> records_of_broken_kernels() {
  static constexpr Implementation kNothing = fake::make("nothing", Backend::cpu, true);
  static constexpr Implementation kThrows = [] {
    Implementation kernel = fake::make("throws", Backend::cpu, false);
    kernel.prepare = [](const Problem&, const Config&, const Device&) -> PreparedKernel* {
      throw std::runtime_error("cannot prepare");
    };
    return kernel;
  }();
  const Device device = fake::cpu();
  const RunContext context = {.device = &device,
                              .sweep_name = "broken",
                              .command_line = "attnlab run",
                              .memory_limit_bytes = std::uint64_t{1} << 30};
  Config asked;
  asked.set("block_m", 0);
  const Case work = {
      .problem = {.seqlen_q = 8, .seqlen_k = 8, .head_dim = 8},
      .competitors = {{.kernel = "nothing", .implementation = &kNothing, .asked = asked},
                      {.kernel = "throws", .implementation = &kThrows}}};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  Progress progress(file.get(), case_weight(work, context.protocol));
  std::vector<Json> records;
  run_case(work, context, progress, [&](const std::vector<Record>& finished) {
    for (const Record& record : finished) records.push_back(to_json(record));
  });
  return records;
}

// Returns the first of the records with a verdict that failed, by each of the bounds.
std::vector<Json> records_of_failures(const std::vector<Json>& records) {
  const auto has_failure = [](const Json& record) {
    return record["status"] == "failed" && !record["verify"].empty();
  };
  const Json failed = *std::find_if(records.begin(), records.end(), has_failure);
  std::vector<Json> made;
  for (const char* bound : {"coverage", "max", "zero", "mean", "norm", "row", "slope",
                            "slice_slope", "drift", "slice_drift", "nan", "identity"}) {
    made.push_back(failed);
    for (Json& verdict : made.back()["verify"]) {
      if (verdict["pass"] == false) verdict["failed_bound"] = bound;
    }
  }
  return made;
}

class RecordSchema : public Cli {
 protected:
  // Returns what the real binary writes for the arguments.
  std::vector<Json> records(const std::string& arguments) const {
    const Result result = run("run " + arguments + " --rounds 2 --protocol warmup_seconds=0 " +
                              "--heads 2 --head-dim 16 --no-progress --out r.jsonl");
    EXPECT_LE(result.code, 3) << result.err;
    EXPECT_NE(result.code, 2) << result.err;
    const std::vector<Json> lines = lines_of(folder_ / "r.jsonl");
    fs::remove(folder_ / "r.jsonl");
    return lines;
  }

  // Returns a record that holds as many sections as one can.
  Json full_record() const {
    return records(
               "--kernel v3 --pass fwdbwd --batch 2 --seqlen 32 --mask "
               "causal+padding:7+blocks:local:1:16x16")
        .at(0);
  }
};

TEST_F(RecordSchema, EveryFieldIsDescribed) { expect_described(record_schema()); }

TEST_F(RecordSchema, ShippedRecordsFit) {
  for (const char* folder : {"results", "tests/data"}) {
    int count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(kTree / folder)) {
      if (entry.path().extension() != ".jsonl") continue;
      ++count;
      for (const Json& record : lines_of(entry.path())) {
        EXPECT_EQ(record_schema().violation(record), "") << entry.path() << "\n" << record["key"];
      }
    }
    EXPECT_GT(count, 0) << folder;
  }
}

// The reader's own look at values passes whatever fits the schema.
TEST_F(RecordSchema, ShippedRecordsAreRead) {
  for (const auto& entry : fs::recursive_directory_iterator(kTree / "results")) {
    if (entry.path().extension() != ".jsonl") continue;
    std::vector<std::string> warnings;
    EXPECT_EQ(usage_error([&] {
                EXPECT_EQ(read_records(entry.path(), warnings).size(),
                          lines_of(entry.path()).size());
              }),
              "");
    EXPECT_TRUE(warnings.empty());
  }
}

TEST_F(RecordSchema, FreshRecordsFitAndUseAllOfIt) {
  write("s.json", R"({"schema": "attnlab.sweep/1", "name": "s",
    "axes": {"kernel": "v2", "seqlen": [8, 16], "block": "16x16", "heads": 2, "head_dim": 16},
    "exclude": [{"where": {"seqlen": 8}, "reason": "too short"}],
    "protocol": {"verify_seconds": 2}})");
  ASSERT_EQ(run("run --kernel v1 --pass bwd --seqlen 8 --rounds 2 --save a.st").code, 0);
  ASSERT_EQ(run("run --kernel v1 --dtype f16 --seqlen 8 --rounds 2 --save b.st").code, 0);
  ASSERT_EQ(run("run --kernel v1 --dtype bf16 --seqlen 8 --rounds 2 --save c.st").code, 0);
  std::vector<Json> all = records_of_broken_kernels();
  for (const char* arguments :
       {"--kernel naive,v1,v2,v3 --pass fwd,bwd,fwdbwd --dropout 0,0.1 --seqlen 24",
        "--kernel naive,v1,v2,v3 --pass fwd,bwd,fwdbwd --dropout 0,0.1 --seqlen 24 --mask causal",
        "--kernel v2 --dtype f16,bf16 --layout bhsd --seqlen 40 --block 16x16 --mask window:3:0",
        "--kernel v2 --seqlen 40 --input-kind uniform,integers,large_logits",
        "--kernel v2 --seqlen 40 --input-kind outlier,outlier_channel",
        "--kernel v2 --seqlen 40 --input-kind v_one,v_mean_one,sink",
        "--kernel v3 --dtype e4m3 --seqlen 40 --quant tensor,head,block --rotate 0,1",
        "--kernel v3 --dtype e4m3 --seqlen 40 --quant-v tensor,head,block,channel",
        "--kernel v3 --pass fwd,bwd --layout packed --batch 2 --seqlen 20 --lengths drawn,20+7",
        "--kernel v2 --batch 2 --seqlen 40 --mask padding:8,blocks:butterfly:16x16",
        "--kernel minimal --pass bwd --seqlen 8", "--kernel v2 --backend cuda --seqlen 8",
        "--kernel v2 --seqlen 8192 --memory-limit 512K", "--kernel v2 --seqlen 8,16 --shard 1/2",
        "s.json", "s.json --dropout 0.5"}) {
    for (const Json& record : records(arguments)) all.push_back(record);
  }
  for (const char* arguments :
       {"--kernel v1 --input a.st --pass fwd,bwd", "--kernel v1 --input b.st --pass bwd",
        "--kernel v3 --input b.st --dtype e4m3", "--kernel v3 --input c.st --dtype e4m3"}) {
    ASSERT_EQ(run(std::string("run --rounds 2 --out i.jsonl ") + arguments).code, 0);
  }
  for (const Json& record : lines_of(folder_ / "i.jsonl")) all.push_back(record);
  for (const auto& [name, record] : records_of_a_gpu()) all.push_back(record);
  for (const Json& record : records_of_failures(all)) all.push_back(record);

  JsonSchema::Parts used;
  for (const Json& record : all) {
    EXPECT_EQ(record_schema().violation(record), "") << record.dump(1);
    record_schema().add_used(record, used);
    for (const auto& item : record_schema().json().at("properties").items()) {
      // Only those of --timeline, and of e4m3 on a GPU, have one.
      if (item.key() == "timeline" || item.key() == "quantise") continue;
      EXPECT_TRUE(record.contains(item.key())) << item.key();
    }
  }
  for (const std::string& part : record_schema().parts()) {
    EXPECT_TRUE(used.contains(part)) << "no record has " << part;
  }
}

TEST_F(RecordSchema, NothingIsMissingMisplacedOrTooMuch) {
  const Json record = full_record();
  expect_strict(record_schema(), record);
  const Json::json_pointer requested("/traffic/requested"), config("/config");
  const std::set<std::string> older_records_lack = {"/config_asked",
                                                    "/input_file",
                                                    "/shard",
                                                    "/problem/lengths/given",
                                                    "/time/contenders",
                                                    "/time/rounds_asked",
                                                    "/time/retries",
                                                    "/time/at_work",
                                                    "/time/graph",
                                                    "/time/outputs",
                                                    "/time/telemetry",
                                                    "/energy",
                                                    "/counters",
                                                    "/cache_claim",
                                                    "/profile",
                                                    "/evidence",
                                                    "/traffic/valid",
                                                    "/compile",
                                                    "/peer",
                                                    "/roof",
                                                    "/device/cuda",
                                                    "/protocol/cache",
                                                    "/protocol/regime",
                                                    "/protocol/warmup_launches",
                                                    "/run"};
  const std::set<std::string> of_newer_verdicts = {
      "compared",          "rows",         "rms_to_twin", "row_share", "slope_share",
      "slice_slope_share", "failed_bound", "whole_heads", "drift",     "drift_share",
      "slice_drift_share"};
  for_each_place(record, [&](const Json::json_pointer& place) {
    const auto parent = place.parent_pointer();
    if (!record[parent].is_object() || parent == requested || parent == config) return;
    Json spoiled = record;
    spoiled[parent].erase(place.back());
    const bool optional =
        older_records_lack.contains(place.to_string()) || of_newer_verdicts.contains(place.back());
    EXPECT_EQ(record_schema().violation(spoiled).empty(), optional) << place << " is missing";
  });
}

TEST_F(RecordSchema, WrongRecordsOfAGpuAreRefused) {
  const std::map<std::string, Json> records = records_of_a_gpu();
  const Json &ours = records.at("ours"), &peer = records.at("peer");
  for (const char* patch : {
           R"([{"op": "replace", "path": "/compile", "value": []}])",
           R"([{"op": "replace", "path": "/compile/0/arch", "value": "90"}])",
           R"([{"op": "replace", "path": "/compile/0/entries/0/registers", "value": -1}])",
           R"([{"op": "replace", "path": "/time/cache", "value": "warm"}])",
           R"([{"op": "replace", "path": "/time/graph/samples_s", "value": []}])",
           R"([{"op": "replace", "path": "/time/outputs/sets", "value": -1}])",
           R"([{"op": "remove", "path": "/time/outputs/same_bits"}])",
           R"([{"op": "replace", "path": "/counters/tensor_flops_of_executed", "value": "nan"}])",
           R"([{"op": "replace", "path": "/time/telemetry/settled", "value": "yes"}])",
           R"([{"op": "replace", "path": "/time/telemetry/blocks/0/samples", "value": 0}])",
           R"([{"op": "remove", "path": "/time/telemetry/blocks/0/marked"}])",
           R"([{"op": "replace", "path": "/energy/joules", "value": "many"}])",
           R"([{"op": "remove", "path": "/energy/reason"}])",
           R"([{"op": "replace", "path": "/quantise/median_s", "value": "soon"}])",
           R"([{"op": "remove", "path": "/quantise/bytes"}])",
           R"([{"op": "replace", "path": "/protocol/regime", "value": "cool"}])",
           R"([{"op": "replace", "path": "/flops/executed", "value": null}])",
           R"([{"op": "replace", "path": "/device/cuda/l2_bytes", "value": 1.5}])",
           // These spoil what was counted, and what it proves.
           R"([{"op": "replace", "path": "/traffic/dram", "value": 5}])",
           R"([{"op": "replace", "path": "/traffic/dram/read_bytes", "value": -1}])",
           R"([{"op": "remove", "path": "/traffic/l2/write_bytes"}])",
           R"([{"op": "replace", "path": "/traffic/valid", "value": null}])",
           R"([{"op": "replace", "path": "/traffic/valid", "value": false}])",
           R"([{"op": "remove", "path": "/traffic/valid"}])",
           R"([{"op": "replace", "path": "/traffic/reason", "value": "why"}])",
           R"([{"op": "replace", "path": "/counters", "value": null}])",
           R"([{"op": "replace", "path": "/counters/launches", "value": 0}])",
           R"([{"op": "replace", "path": "/counters/l2", "value": "clean"}])",
           R"([{"op": "replace", "path": "/counters/wgmma_flops", "value": "nan"}])",
           R"([{"op": "replace", "path": "/counters/metrics", "value": []}])",
           R"([{"op": "replace", "path": "/counters/metrics", "value": ["a", "a"]}])",
           R"([{"op": "remove", "path": "/counters/atomic_bytes"}])",
           R"([{"op": "replace", "path": "/backend", "value": "cpu"}])",
           R"([{"op": "replace", "path": "/kernel", "value": "torch:flash"}])",
           R"([{"op": "replace", "path": "/cache_claim/claim", "value": "hot"}])",
           R"([{"op": "replace", "path": "/protocol/cache", "value": "hot"}])",
           R"([{"op": "replace", "path": "/cache_claim/reason", "value": "why"}])",
           R"([{"op": "remove", "path": "/cache_claim/reason"}])",
           R"([{"op": "replace", "path": "/cache_claim/dram_reads_of_compulsory", "value": null}])",
           R"([{"op": "replace", "path": "/cache_claim/verdict", "value": "rejected"},
               {"op": "replace", "path": "/cache_claim/reason", "value": "why"}])",
           R"([{"op": "replace", "path": "/cache_claim/verdict", "value": "unproved"},
               {"op": "replace", "path": "/cache_claim/reason", "value": "why"}])",
           R"([{"op": "replace", "path": "/evidence/as_asked", "value": false},
               {"op": "replace", "path": "/evidence/reason", "value": "why"}])",
           R"([{"op": "replace", "path": "/evidence/as_asked", "value": null},
               {"op": "replace", "path": "/evidence/reason", "value": "why"}])",
           R"([{"op": "replace", "path": "/evidence/reason", "value": "why"}])",
           R"([{"op": "replace", "path": "/evidence/executed", "value": null}])",
           R"([{"op": "replace", "path": "/evidence/verified", "value": false}])",
           R"([{"op": "replace", "path": "/evidence/timed", "value": false}])",
       }) {
    EXPECT_NE(record_schema().violation(ours.patch(Json::parse(patch))), "") << patch;
  }
  for (const char* patch : {
           R"([{"op": "replace", "path": "/flops/executed", "value": 1}])",
           R"([{"op": "replace", "path": "/peer/verified_dropout", "value": 1}])",
           R"([{"op": "remove", "path": "/peer/kernels"}])",
           R"([{"op": "replace", "path": "/peer/kernels", "value": ["fmha", "fmha"]}])",
           R"([{"op": "replace", "path": "/evidence/executed/0/grid", "value": [8, 2]}])",
           R"([{"op": "replace", "path": "/evidence/executed/0/block", "value": [0, 1, 1]}])",
           R"([{"op": "replace", "path": "/evidence/executed/0/launches", "value": 0}])",
           R"([{"op": "remove", "path": "/evidence/executed/0/registers"}])",
           R"([{"op": "remove", "path": "/evidence/requested/config"}])",
           R"([{"op": "replace", "path": "/kernel", "value": "naive"}])",
           R"([{"op": "replace", "path": "/kernel", "value": "fa45"}])",
           R"([{"op": "replace", "path": "/peer/plan", "value": ""}])",
           R"([{"op": "replace", "path": "/roof/binds", "value": "cache"}])",
           R"([{"op": "replace", "path": "/roof/peaks", "value": null}])",
           R"([{"op": "replace", "path": "/roof/reason", "value": "why"}])",
           R"([{"op": "replace", "path": "/roof/peaks/flops_per_s", "value": 0}])",
           R"([{"op": "replace", "path": "/roof/peaks/memory", "value": "l2_read"}])",
           R"([{"op": "replace", "path": "/roof/intensity_flop_per_byte", "value": -1}])",
       }) {
    EXPECT_NE(record_schema().violation(peer.patch(Json::parse(patch))), "") << patch;
  }
  for (const char* name : {"cudnn", "fa4", "py:a/b.py:f"}) {
    Json other = peer;
    other["kernel"] = name;
    other["peer"]["plan"] = "its own";
    EXPECT_EQ(record_schema().violation(other), "") << name;
  }
}

TEST_F(RecordSchema, WrongReportsOfProfilersAreRefused) {
  const Json profiled = records_of_a_gpu().at("profiled");
  EXPECT_EQ(record_schema().violation(profiled), "");
  for (const char* patch : {
           R"([{"op": "replace", "path": "/profile", "value": {}}])",
           R"([{"op": "replace", "path": "/profile/tool", "value": "nvprof"}])",
           R"([{"op": "replace", "path": "/profile/report", "value": ""}])",
           R"([{"op": "replace", "path": "/profile/report_sha256", "value": "5"}])",
           R"([{"op": "replace", "path": "/profile/dram/read_bytes", "value": "nan"}])",
           R"([{"op": "replace", "path": "/profile/l2", "value": null}])",
           R"([{"op": "replace", "path": "/profile/wgmma_flops", "value": -1}])",
           R"([{"op": "replace", "path": "/profile/metrics", "value": []}])",
           R"([{"op": "replace", "path": "/profile/kernels", "value": []}])",
           R"([{"op": "replace", "path": "/profile/kernels/0/stalls", "value": {}}])",
           R"([{"op": "add", "path": "/profile/kernels/0/stalls/wait", "value": "nan"}])",
           R"([{"op": "add", "path": "/profile/kernels/0/stalls/a b", "value": 1}])",
           R"([{"op": "replace", "path": "/profile/kernels/0/grid", "value": [1, 1]}])",
           R"([{"op": "remove", "path": "/profile/kernels/0/registers"}])",
           R"([{"op": "replace", "path": "/profile/compared/0/what", "value": "seconds"}])",
           R"([{"op": "replace", "path": "/profile/compared/0/source", "value": "guess"}])",
           R"([{"op": "replace", "path": "/profile/compared/0/other", "value": null}])",
           R"([{"op": "replace", "path": "/profile/compared/0/differs", "value": null}])",
           R"([{"op": "replace", "path": "/backend", "value": "cpu"},
               {"op": "replace", "path": "/counters", "value": null},
               {"op": "replace", "path": "/cache_claim", "value": null},
               {"op": "replace", "path": "/traffic/l2", "value": null},
               {"op": "replace", "path": "/traffic/dram", "value": null},
               {"op": "replace", "path": "/traffic/valid", "value": false},
               {"op": "replace", "path": "/traffic/reason", "value": "none"}])",
       }) {
    EXPECT_NE(record_schema().violation(profiled.patch(Json::parse(patch))), "") << patch;
  }
}

TEST_F(RecordSchema, WhatNobodyCountedProvesNothing) {
  const std::map<std::string, Json> records = records_of_a_gpu();
  const Json& ours = records.at("ours");
  const Json bytes = {{"read_bytes", 1}, {"write_bytes", 1}};
  const auto expect_refused = [](Json record, const char* place, const Json& value) {
    EXPECT_EQ(record_schema().violation(record), "");
    record[Json::json_pointer(place)] = value;
    EXPECT_NE(record_schema().violation(record), "") << place << " in " << record["key"];
  };
  const Json& uncounted = records.at("no permission");
  expect_refused(uncounted, "/traffic/l2", bytes);
  expect_refused(uncounted, "/traffic/dram", bytes);
  expect_refused(uncounted, "/cache_claim/reason", "");
  expect_refused(uncounted, "/evidence/reason", "");
  Json valid = uncounted["traffic"];
  valid["valid"] = true;
  valid["reason"] = "";
  expect_refused(uncounted, "/traffic", valid);
  expect_refused(uncounted, "/cache_claim", ours["cache_claim"]);

  Json skipped = uncounted;
  skipped["status"] = "skipped";
  skipped["reason"] = "why";
  for (const char* section : {"verify", "verify_timed", "time", "flops", "memory", "traffic",
                              "roof", "evidence", "cache_claim"}) {
    skipped[section] = nullptr;
  }
  for (const Json& other : {records.at("peer"), full_record(), skipped}) {
    expect_refused(other, "/counters", ours["counters"]);
    Json unproved = uncounted["cache_claim"];
    unproved["claim"] = other["protocol"]["cache"];
    expect_refused(other, "/cache_claim", unproved);
  }
  // A hot claim is never rejected.
  Json rejected = records.at("rejected");
  rejected["protocol"]["cache"] = "hot";
  Json claim = rejected["cache_claim"];
  rejected["cache_claim"] = nullptr;
  claim["claim"] = "hot";
  expect_refused(rejected, "/cache_claim", claim);
}

TEST_F(RecordSchema, WrongRecordsAreRefused) {
  const Json record = full_record();
  for (const char* patch : {
           R"([{"op": "replace", "path": "/schema", "value": "attnlab.record/2"}])",
           R"([{"op": "replace", "path": "/key", "value": "v2"}])",
           R"([{"op": "replace", "path": "/seed", "value": -1}])",
           R"([{"op": "replace", "path": "/backend", "value": "gpu"}])",
           R"([{"op": "replace", "path": "/input_kind", "value": "ones"}])",
           R"([{"op": "replace", "path": "/timestamp", "value": "yesterday"}])",
           R"([{"op": "replace", "path": "/config/block_m", "value": 1.5}])",
           R"([{"op": "replace", "path": "/problem/pass", "value": "backward"}])",
           R"([{"op": "replace", "path": "/problem/dtype", "value": "f64"}])",
           R"([{"op": "replace", "path": "/problem/batch", "value": 0}])",
           R"([{"op": "replace", "path": "/problem/dropout", "value": 1}])",
           R"([{"op": "replace", "path": "/problem/blocks", "value": null}])",
           R"([{"op": "replace", "path": "/problem/mask", "value": "causal"}])",
           R"([{"op": "replace", "path": "/problem/blocks/fnv1a", "value": "xyz"}])",
           R"([{"op": "replace", "path": "/problem/lengths/kind", "value": "dense"}])",
           R"([{"op": "replace", "path": "/problem/lengths/kind", "value": "packed"}])",
           R"([{"op": "add", "path": "/problem/lengths/queries", "value": [1, 2]}])",
           R"([{"op": "replace", "path": "/time/n", "value": 2.5}])",
           R"([{"op": "replace", "path": "/time/median_s", "value": "fast"}])",
           R"([{"op": "replace", "path": "/time/ci95_s", "value": [1]}])",
           R"([{"op": "replace", "path": "/memory/inputs_bytes", "value": -1}])",
           R"([{"op": "replace", "path": "/traffic/dram", "value": 5}])",
           R"([{"op": "move", "from": "/traffic/requested/q", "path": "/traffic/requested/x"}])",
           R"([{"op": "replace", "path": "/verify/0/tensor", "value": "x"}])",
           R"([{"op": "replace", "path": "/verify/0/max_abs", "value": "NaN"}])",
           // These spoil what belongs to the verdict, the pass and the inputs.
           R"([{"op": "replace", "path": "/status", "value": "good"}])",
           R"([{"op": "replace", "path": "/reason", "value": "well"}])",
           R"([{"op": "replace", "path": "/verify_timed", "value": []}])",
           R"([{"op": "replace", "path": "/verify/0/pass", "value": false},
               {"op": "add", "path": "/verify/0/message", "value": "wrong"}])",
           R"([{"op": "add", "path": "/verify/0/message", "value": "wrong"}])",
           R"([{"op": "replace", "path": "/memory/peak_bytes", "value": null}])",
           R"([{"op": "replace", "path": "/problem/pass", "value": "fwd"}])",
           R"([{"op": "replace", "path": "/problem/pass", "value": "bwd"}])",
           R"([{"op": "replace", "path": "/input_kind", "value": "file"}])",
           R"([{"op": "replace", "path": "/input_file",
                "value": {"path": "a", "fnv1a": "0123456789abcdef", "do": "file"}}])",
           R"([{"op": "replace", "path": "/input_kind", "value": "file"},
               {"op": "replace", "path": "/input_file",
                "value": {"path": "a", "fnv1a": "0123456789abcdef", "do": null}}])",
       }) {
    EXPECT_NE(record_schema().violation(record.patch(Json::parse(patch))), "") << patch;
  }
}

TEST_F(RecordSchema, TheStatusSaysWhichSectionsThereAre) {
  using Names = std::set<std::string>;
  const Names tried = {"flops", "memory", "traffic"};
  const Names all = {"flops", "memory", "roof", "time", "traffic", "verify", "verify_timed"};
  const Names timed = {"roof", "time"};
  const struct {
    const char* status;
    Names needed, refused;
  } rules[] = {{"ok", all, {}},          {"failed", tried, timed},
               {"invalid", {}, timed},   {"out_of_memory", {}, timed},
               {"unsupported", {}, all}, {"skipped", {}, all}};
  const Json full = full_record();
  for (const auto& [status, needed, refused] : rules) {
    Json record = full;
    record["status"] = status;
    record["reason"] = refused.empty() ? "" : "why";
    for (const std::string& section : refused) record[section] = nullptr;
    EXPECT_EQ(record_schema().violation(record), "") << status;
    for (const std::string& section : all) {
      Json other = record;
      other[section] = refused.contains(section) ? full[section] : Json(nullptr);
      const bool fits = !refused.contains(section) && !needed.contains(section);
      EXPECT_EQ(record_schema().violation(other).empty(), fits) << status << " and " << section;
    }
    record["reason"] = refused.empty() ? "why" : "";
    EXPECT_NE(record_schema().violation(record), "") << status;
  }
}

}  // namespace
}  // namespace attnlab
