#include "harness/record/record_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/plan/protocol.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

// Returns a record with every section, and values that are not the defaults.
Record full_record() {
  Record record;
  Competitor competitor{.kernel = "v2"};
  competitor.config.set("block_m", 64);
  competitor.config.set("block_n", 32);
  record.point.problem = {.batch = 2,
                          .num_heads_q = 4,
                          .num_heads_kv = 2,
                          .seqlen_q = 16,
                          .seqlen_k = 32,
                          .head_dim = 4,
                          .mask = parse_mask("causal+padding"),
                          .lengths = {.kind = LengthsKind::padding, .keys = {32, 20}}};
  record.point.seed = 9;
  record.point.competitors = {competitor};
  record.sweep = "quick";
  record.verify = {{.tensor = "o",
                    .max_abs = 1e-7,
                    .rel_fro = 2e-7,
                    .ratio_to_twin = 1.5,
                    .rms_to_twin = 0.5,
                    .bound = 3e-7,
                    .compared = 32,
                    .rows = 64,
                    .coverage = 0.5,
                    .pass = true}};
  record.verify_timed = record.verify;
  record.time = Timing{.samples_s = {2.0, 1.0},
                       .inner_launches = 3,
                       .rounds_asked = 9,
                       .retries = 1,
                       .at_work = 0.75,
                       .contenders = 4,
                       .median_s = 1.5,
                       .q1_s = 1.25,
                       .q3_s = 1.75,
                       .min_s = 1.0,
                       .ci95_low_s = 1.0,
                       .ci95_high_s = 2.0,
                       .timer = "steady_clock"};
  record.order = {1, 0};
  record.flops = Flops{.useful = 1, .executed = 2, .paper = 3};
  record.memory = Memory{.inputs_bytes = 1,
                         .outputs_bytes = 2,
                         .saved_bytes = 3,
                         .workspace_bytes = 4,
                         .peak_bytes = 10};
  Traffic traffic;
  traffic[Operand::q] = {.read_bytes = 5};
  traffic[Operand::o] = {.write_bytes = 6};
  traffic.tiles = {.empty = 1, .partial = 2, .full = 3};
  record.requested = traffic;
  record.compulsory_bytes = 11;
  record.device = {.name = "a CPU",
                   .memory_bytes = 99,
                   .threads = 2,
                   .isa = "avx2",
                   .cache_bytes = {32768, 1048576}};
  record.command_line = "attnlab run";
  record.timestamp = "2024-01-02T03:04:05Z";
  return record;
}

TEST(Record, SaysWhatWasAskedForWhereTheKernelChose) {
  Record record = full_record();
  Config& asked = record.point.competitors.front().asked;
  asked.set("block_m", 64);
  asked.set("block_n", 0);
  const Json json = to_json(record);
  EXPECT_EQ(json["config_asked"].dump(), R"({"block_m":64,"block_n":0})");
  EXPECT_EQ(json["config"].dump(), R"({"block_m":64,"block_n":32})");
  EXPECT_EQ(json["key"], to_json(full_record())["key"])
      << "the same point, however it was asked for";
}

TEST(Record, NamesTheRunThatItIsOf) {
  EXPECT_EQ(to_json(full_record())["run"], to_json(full_record())["run"]) << "one process";
  EXPECT_NE(to_json(full_record())["run"], "0000000000000000");
}

TEST(Record, IsMarkedWhereItsKernelIsOfAnotherSourceTree) {
  const std::string commit = to_json(full_record())["build"]["commit"];
  Record record = full_record();
  record.compilations.push_back({.unit = "v2-forward", .arch = "sm_90a"});
  EXPECT_EQ(to_json(record)["build"]["commit"], commit);
  set_compiler({.source_folder = "/elsewhere"});
  EXPECT_EQ(to_json(record)["build"]["commit"], commit + "-sources");
  EXPECT_EQ(to_json(full_record())["build"]["commit"], commit) << "nothing was compiled for it";
  set_compiler({});
}

TEST(Record, HasTheDocumentedShape) {
  const Json json = to_json(full_record());
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  EXPECT_EQ(keys,
            (std::vector<std::string>{
                "schema",   "id",       "key",          "sweep",   "shard",        "kernel",
                "backend",  "config",   "config_asked", "problem", "input_kind",   "input_file",
                "seed",     "status",   "reason",       "verify",  "verify_timed", "time",
                "energy",   "flops",    "memory",       "traffic", "counters",     "cache_claim",
                "profile",  "evidence", "peer",         "roof",    "compile",      "device",
                "protocol", "build",    "command_line", "run",     "timestamp"}));
  EXPECT_EQ(json["schema"], "attnlab.record/1");
  EXPECT_EQ(json["id"], "fwd/f32/b2/hq4/hkv2/sq16/sk32/d4/causal+padding/p0/bshd");
  EXPECT_EQ(json["key"],
            json["id"].get<std::string>() + "/v2/cpu/block_m=64,block_n=32/normal/seed9/hot");
  EXPECT_EQ(json["config"].dump(), R"({"block_m":64,"block_n":32})");
  EXPECT_TRUE(json["config_asked"].is_null());
  EXPECT_EQ(json["problem"].dump(),
            R"({"pass":"fwd","dtype":"f32","layout":"bshd","batch":2,"num_heads_q":4,)"
            R"("num_heads_kv":2,"seqlen_q":16,"seqlen_k":32,"head_dim":4,)"
            R"("mask":"causal+padding","blocks":null,)"
            R"("lengths":{"kind":"padding","given":false,"keys":[32,20]},)"
            R"("dropout":0.0,"softmax_scale":0.5})");
  EXPECT_EQ(
      json["verify"].dump(),
      R"([{"tensor":"o","max_abs":1e-07,"rel_fro":2e-07,"ratio_to_twin":1.5,)"
      R"("rms_to_twin":0.5,"bound":3e-07,"coverage":0.5,"compared":32,"rows":64,"pass":true}])");
  EXPECT_EQ(json["verify_timed"], json["verify"]);
  EXPECT_EQ(
      json["time"].dump(),
      R"({"median_s":1.5,"q1_s":1.25,"q3_s":1.75,"min_s":1.0,"n":2,"rounds_asked":9,"retries":1,)"
      R"("at_work":0.75,"inner_launches":3,"contenders":4,)"
      R"("samples_s":[2.0,1.0],"ci95_s":[1.0,2.0],"timer":"steady_clock","cache":"hot",)"
      R"("telemetry":null,"graph":null,"outputs":null,"order":[1,0]})");
  EXPECT_EQ(json["flops"].dump(), R"({"useful":1,"executed":2,"paper":3})");
  EXPECT_EQ(json["memory"].dump(),
            R"({"inputs_bytes":1,"outputs_bytes":2,"saved_bytes":3,"workspace_bytes":4,)"
            R"("peak_bytes":10})");
  EXPECT_EQ(json["traffic"].dump(),
            R"({"compulsory_bytes":11,"requested_read_bytes":5,"requested_write_bytes":6,)"
            R"("requested":{"q":{"read_bytes":5,"write_bytes":0},)"
            R"("o":{"read_bytes":0,"write_bytes":6}},)"
            R"("tiles":{"empty":1,"partial":2,"full":3},"l2":null,"dram":null,)"
            R"("valid":false,"reason":"no hardware counters on the CPU backend"})");
  EXPECT_EQ(json["device"].dump(),
            R"({"backend":"cpu","name":"a CPU","isa":"avx2","threads":2,"memory_bytes":99,)"
            R"("cache_bytes":[32768,1048576],"cuda":null})");
  EXPECT_EQ(json["protocol"]["min_rounds"], 9);
  EXPECT_EQ(json["protocol"].size(), 9u);
  EXPECT_EQ(json["build"].size(), 4u);
}

TEST(Record, AbsentSectionsAreNull) {
  Record record;
  record.point.competitors = {{.kernel = "v3"}};
  record.status = Status::unsupported;
  record.reason = "no such kernel";
  const Json json = to_json(record);
  for (const char* section :
       {"verify", "verify_timed", "time", "energy", "flops", "memory", "traffic", "counters",
        "cache_claim", "profile", "evidence", "peer", "compile"}) {
    EXPECT_TRUE(json.at(section).is_null()) << section;
  }
  EXPECT_EQ(json["status"], "unsupported");
  EXPECT_EQ(json["reason"], "no such kernel");
  EXPECT_EQ(json["config"].dump(), "{}");
  EXPECT_NE(json["key"].get<std::string>().find("/v3/cpu/default/"), std::string::npos);
}

TEST(Record, BlockMasksAreRecognisable) {
  Record record = full_record();
  record.pattern = PatternSummary{.visible_fraction = 0.25, .hash = 0xAB};
  EXPECT_EQ(to_json(record)["problem"]["blocks"].dump(),
            R"({"visible_fraction":0.25,"fnv1a":"00000000000000ab"})");
}

TEST(Record, SaysWhyNothingWasCounted) {
  Record record = full_record();
  const auto reason = [&record] {
    const Json json = to_json(record);
    EXPECT_EQ(json["traffic"]["valid"], false);
    EXPECT_TRUE(json["traffic"]["l2"].is_null() && json["traffic"]["dram"].is_null());
    EXPECT_TRUE(json["counters"].is_null());
    return json["traffic"]["reason"].get<std::string>();
  };
  EXPECT_EQ(reason(), "no hardware counters on the CPU backend");
  record.device.backend = Backend::cuda;
  EXPECT_EQ(reason(), "the point ended before anything was counted");
  record.counted = Counted{.reason = "no permission"};
  EXPECT_EQ(reason(), "no permission");
}

TEST(Record, ATimelineIsThereWhereItWasAskedFor) {
  Record record = full_record();
  EXPECT_FALSE(to_json(record).contains("timeline"));
  record.timeline = TimelineRecord{
      .items = 64, .median_s = 1.0e-3, .timed_median_s = 1.25e-3, .reason = "too slow"};
  EXPECT_EQ(to_json(record)["timeline"].dump(),
            R"({"items":64,"median_s":0.001,"timed_median_s":0.00125,"void":true,)"
            R"("reason":"too slow","idle_share_at_end":null,"claim_to_begin_s":null,)"
            R"("describe_cycles":null})");
}

TEST(Record, QuantisationIsThereWhereADeviceDidIt) {
  Record record = full_record();
  EXPECT_FALSE(to_json(record).contains("quantise"));
  record.quantise = QuantiseRecord{.bytes = 640, .reason = "scale_k is wrong"};
  EXPECT_EQ(to_json(record)["quantise"].dump(),
            R"({"median_s":null,"q1_s":null,"q3_s":null,"min_s":null,"n":0,"inner_launches":0,)"
            R"("samples_s":[],"bytes":640,"reason":"scale_k is wrong","compile":null})");
  record.quantise = QuantiseRecord{.time = QuantiseTiming{.samples_s = {0.25, 0.75},
                                                          .inner_launches = 3,
                                                          .median_s = 0.5,
                                                          .q1_s = 0.375,
                                                          .q3_s = 0.625,
                                                          .min_s = 0.25},
                                   .bytes = 640};
  EXPECT_EQ(to_json(record)["quantise"].dump(),
            R"({"median_s":0.5,"q1_s":0.375,"q3_s":0.625,"min_s":0.25,"n":2,"inner_launches":3,)"
            R"("samples_s":[0.25,0.75],"bytes":640,"reason":"","compile":null})");
  record.quantise->compilations.push_back({.unit = "quantise-e4m3", .arch = "sm_90a"});
  EXPECT_EQ(to_json(record)["quantise"]["compile"].at(0)["unit"], "quantise-e4m3");
  EXPECT_TRUE(to_json(record)["compile"].is_null()) << "the point's own stand apart";
}

TEST(Record, CountsAreALaunchsMean) {
  Record record = full_record();
  record.device.backend = Backend::cuda;
  record.counted = Counted{.a_launch = {.dram_read_bytes = 100.0,
                                        .dram_write_bytes = 50.0,
                                        .sm_read_bytes = 400.0,
                                        .l2_read_bytes = 300.0,
                                        .l2_write_bytes = 150.0,
                                        .tensor_active_cycles = 250.0,
                                        .active_cycles = 1000.0,
                                        .elapsed_cycles = 1250.0,
                                        .wgmma_flops = 1.0,
                                        .mma_sync_flops = 2.0,
                                        .atomic_bytes = 32.0,
                                        .reduction_bytes = 64.0,
                                        .shared_wavefronts = 900.0,
                                        .shared_load_conflicts = 8.0,
                                        .shared_store_conflicts = 0.0,
                                        .multiprocessor_clock_hz = 1.5e9,
                                        .metrics = {"one", "two"}},
                           .launches = 7,
                           .l2 = L2State::swept,
                           .seconds = 0.5,
                           .tensor_flops_of_executed = 0.5,
                           .valid = true};
  const Json json = to_json(record);
  EXPECT_EQ(json["traffic"]["dram"].dump(), R"({"read_bytes":100.0,"write_bytes":50.0})");
  EXPECT_EQ(json["traffic"]["l2"].dump(), R"({"read_bytes":300.0,"write_bytes":150.0})");
  EXPECT_EQ(json["traffic"]["valid"], true);
  EXPECT_EQ(json["traffic"]["reason"], "");
  EXPECT_EQ(json["counters"].dump(),
            R"({"launches":7,"l2":"swept","seconds":0.5,"sm_read_bytes":400.0,)"
            R"("tensor_active_percent":25.0,"active_cycles":1000.0,"elapsed_cycles":1250.0,)"
            R"("wgmma_flops":1.0,"mma_sync_flops":2.0,"tensor_flops_of_executed":0.5,)"
            R"("atomic_bytes":32.0,)"
            R"("reduction_bytes":64.0,"shared_wavefronts":900.0,"shared_load_conflicts":8.0,)"
            R"("shared_store_conflicts":0.0,"multiprocessor_clock_hz":1500000000.0,)"
            R"("metrics":["one","two"]})");

  // This chip lacks some of the counters.
  HardwareCounts& counts = record.counted->a_launch;
  counts.dram_write_bytes = counts.wgmma_flops = counts.active_cycles = std::nullopt;
  record.counted->l2 = L2State::steady;
  const Json lacking = to_json(record);
  EXPECT_TRUE(lacking["traffic"]["dram"].is_null());
  EXPECT_FALSE(lacking["traffic"]["l2"].is_null());
  EXPECT_EQ(lacking["traffic"]["valid"], true);
  EXPECT_TRUE(lacking["counters"]["wgmma_flops"].is_null());
  EXPECT_TRUE(lacking["counters"]["tensor_active_percent"].is_null());
  EXPECT_EQ(lacking["counters"]["l2"], "steady");
  counts.active_cycles = 0.0;
  EXPECT_TRUE(to_json(record)["counters"]["tensor_active_percent"].is_null()) << "not infinite";
}

TEST(Record, AClaimOfCachesHasItsVerdict) {
  Record record = full_record();
  record.cache_claim = CacheClaim{.claim = CacheState::cold,
                                  .verdict = ClaimVerdict::rejected,
                                  .dram_reads_of_compulsory = 0.5,
                                  .reason = "a cache"};
  EXPECT_EQ(to_json(record)["cache_claim"].dump(),
            R"({"claim":"cold","verdict":"rejected","dram_reads_of_compulsory":0.5,)"
            R"("reason":"a cache"})");
  record.cache_claim = CacheClaim{.reason = "not counted"};
  EXPECT_EQ(to_json(record)["cache_claim"].dump(),
            R"({"claim":"hot","verdict":"unproved","dram_reads_of_compulsory":null,)"
            R"("reason":"not counted"})");
}

TEST(Record, EvidenceIsWhatRanBesideWhatWasAskedFor) {
  Record record = full_record();
  record.evidence = Evidence{.executed = {{{.symbol = "softmax",
                                            .grid = {8, 2, 1},
                                            .block = {128, 1, 1},
                                            .registers = 40,
                                            .static_shared_bytes = 16,
                                            .dynamic_shared_bytes = 1024,
                                            .shared_bytes = 1040,
                                            .launches = 3}}},
                             .as_asked = true};
  EXPECT_EQ(to_json(record)["evidence"].dump(),
            R"({"requested":{"kernel":"v2","backend":"cpu","config":{"block_m":64,"block_n":32}},)"
            R"("executed":[{"symbol":"softmax","grid":[8,2,1],"block":[128,1,1],"registers":40,)"
            R"("static_shared_bytes":16,"dynamic_shared_bytes":1024,"shared_bytes":1040,)"
            R"("launches":3}],"as_asked":true,"verified":true,"timed":true,"reason":"",)"
            R"("beyond":[{"symbol":"softmax","launches":3}]})");
  record.evidence = Evidence{.reason = "no CUPTI"};
  record.time.reset();
  record.verify_timed.clear();
  const Json unseen = to_json(record)["evidence"];
  EXPECT_TRUE(unseen["executed"].is_null());
  EXPECT_TRUE(unseen["as_asked"].is_null());
  EXPECT_EQ(unseen["verified"], false);
  EXPECT_EQ(unseen["timed"], false);
  EXPECT_EQ(unseen["reason"], "no CUPTI");
  record.verify_timed = record.verify;
  record.verify_timed[0].pass = false;
  EXPECT_EQ(to_json(record)["evidence"]["verified"], false);
}

TEST(Record, OfEachPointTheLast) {
  const auto records_of = [](const std::vector<const char*>& kernels) {
    std::vector<Json> records;
    for (const char* kernel : kernels) {
      Record record = full_record();
      record.point.competitors[0].kernel = kernel;
      record.reason = std::to_string(records.size());
      records.push_back(to_json(record));
    }
    return records;
  };
  std::string kept;
  for (const Json& record : last_of_each_point(records_of({"a", "b", "a", "c", "b"}))) {
    kept += record["reason"].get<std::string>();
  }
  EXPECT_EQ(kept, "234");
}

TEST(Record, EveryOperandHasAName) {
  Record record = full_record();
  for (OperandTraffic& operand : record.requested->operands) operand = {.read_bytes = 1};
  const Json operands = to_json(record)["traffic"]["requested"];
  EXPECT_EQ(operands.size(), kOperands);
  EXPECT_TRUE(operands.contains("dp"));
}

TEST(Record, NumbersThatJsonLacksAreStrings) {
  Record record = full_record();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  record.verify[0].max_abs = std::numeric_limits<double>::quiet_NaN();
  record.verify[0].bound = kInf;
  record.verify[0].rel_fro = -kInf;
  record.verify[0].message = "got nan";
  const Json verdict = Json::parse(to_json(record).dump())["verify"][0];
  EXPECT_EQ(verdict["max_abs"], "nan");
  EXPECT_EQ(verdict["bound"], "inf");
  EXPECT_EQ(verdict["rel_fro"], "-inf");
  EXPECT_EQ(verdict["message"], "got nan");
}

// The two records are of versions of a kernel that chose other tiles for the same point.
TEST(Record, APointAsItWasAskedForIsTheSameWhateverTheKernelChose) {
  nlohmann::ordered_json record = {{"id", "fwd"},
                                   {"kernel", "v2"},
                                   {"backend", "cuda"},
                                   {"config", {{"m", 64}}},
                                   {"input_kind", "normal"},
                                   {"seed", 7},
                                   {"protocol", {{"cache", "hot"}}}};
  EXPECT_EQ(asked_key(record), record_key(record)) << "an older record does not tell";
  record["config_asked"] = nullptr;
  EXPECT_EQ(asked_key(record), record_key(record)) << "nothing was left to choose";
  record["config_asked"] = {{"m", 0}};
  nlohmann::ordered_json other = record;
  other["config"]["m"] = 128;
  EXPECT_NE(record_key(other), record_key(record));
  EXPECT_EQ(asked_key(other), asked_key(record));
  EXPECT_EQ(asked_key(record), "fwd/v2/cuda/m=0/normal/seed7/hot");
}

}  // namespace
}  // namespace attnlab
