// Makes records of points on a GPU, and of a peer, with all that only they have, figures made up.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/measure/blocks.h"
#include "harness/measure/roof.h"
#include "harness/record/record.h"
#include "harness/record/record_json.h"
#include "harness/report/ncu_import.h"
#include "harness/testing/ncu_page.h"

namespace attnlab {

inline Roof roof_under(CeilingId compute, CeilingId memory, Limit binds) {
  return {.intensity = 1.0,
          .dram_intensity = 2.0,
          .binds = binds,
          .percent_of_compute_peak = 1.0,
          .percent_of_memory_peak = 101.0,
          .percent_of_roof = 101.0,
          .source = Roof::Source{.device = "NVIDIA H200",
                                 .driver = "580.159.04",
                                 .timestamp = "2025-01-01T00:00:00Z",
                                 .compute = compute,
                                 .memory = memory,
                                 .peaks = {.flops_per_s = 1e15, .bytes_per_s = 1e12}}};
}

// Fills in what was counted of a launch on cold inputs.
inline void count(Record& record) {
  record.counted = Counted{.a_launch = {.dram_read_bytes = 100.5,
                                        .dram_write_bytes = 50.0,
                                        .l2_read_bytes = 300.0,
                                        .l2_write_bytes = 150.0,
                                        .tensor_active_cycles = 250.0,
                                        .active_cycles = 1000.0,
                                        .elapsed_cycles = 1250.0,
                                        .wgmma_flops = 1.0,
                                        .mma_sync_flops = 0.0,
                                        .atomic_bytes = 0.0,
                                        .reduction_bytes = 64.0,
                                        .shared_wavefronts = 900.0,
                                        .shared_load_conflicts = 8.0,
                                        .shared_store_conflicts = 0.0,
                                        .multiprocessor_clock_hz = 1.5e9,
                                        .metrics = {"dram__bytes_read.sum"}},
                           .launches = 7,
                           .l2 = L2State::swept,
                           .seconds = 0.5,
                           .tensor_flops_of_executed = 1.0,
                           .valid = true};
  record.cache_claim = CacheClaim{
      .claim = CacheState::cold, .verdict = ClaimVerdict::proved, .dram_reads_of_compulsory = 1.0};
}

// Returns the point with all that its counters may come to, by name.
inline std::map<std::string, nlohmann::json> records_of_counters(const Record& counted) {
  std::map<std::string, nlohmann::json> records;
  const auto add = [&](const char* name, const std::function<void(Record&)>& change) {
    Record record = counted;
    change(record);
    records[name] = to_json(record);
  };
  add("chip lacks them",
      [](Record& record) { record.counted->a_launch = {.metrics = {"l1tex__t_bytes.sum"}}; });
  add("self-test failed", [](Record& record) {  // figures, and no verdict
    record.counted->valid = false;
    record.counted->reason = "the counters' self-test failed: ...";
    record.cache_claim = CacheClaim{.claim = CacheState::cold, .reason = record.counted->reason};
  });
  add("no permission", [](Record& record) {
    record.counted = Counted{.reason = "no permission"};
    record.evidence = Evidence{.reason = "no permission"};
    record.cache_claim = CacheClaim{.claim = CacheState::cold, .reason = "no permission"};
  });
  add("rejected", [](Record& record) {
    record.status = Status::invalid;
    record.reason = "claims cold caches, but ...";
    record.time.reset();
    record.roof.reset();
    record.cache_claim->verdict = ClaimVerdict::rejected;
    record.cache_claim->dram_reads_of_compulsory = 0.5;
    record.cache_claim->reason = record.reason;
  });
  add("not as asked", [](Record& record) {
    record.status = Status::invalid;
    record.reason = "what ran is not what was asked for: ...";
    record.time.reset();
    record.roof.reset();
    record.evidence = Evidence{
        .executed = {{{.symbol = "other"}}}, .as_asked = false, .reason = "other ran, ..."};
    record.counted.reset();
    record.cache_claim.reset();
  });
  add("hot", [](Record& record) {
    record.protocol.cache = CacheState::hot;
    record.counted->l2 = L2State::steady;
    record.cache_claim =
        CacheClaim{.dram_reads_of_compulsory = 1.0, .reason = "a launch touches ..."};
  });
  return records;
}

// Returns what a GPU adds: what was compiled, the graph's time, a peer, what was counted; by name.
inline std::map<std::string, nlohmann::json> records_of_a_gpu() {
  const Device device = {.backend = Backend::cuda,
                         .name = "NVIDIA H200",
                         .memory_bytes = 1000,
                         .threads = 16,
                         .compute_capability = 90,
                         .multiprocessors = 132,
                         .l2_bytes = 100,
                         .max_clock_hz = 1.98e9,
                         .driver = "580.159.04"};
  const reference::Verdict verdict = {.tensor = "o",
                                      .coverage = 0.5,
                                      .whole_heads = true,
                                      .slope_share = 0.5,
                                      .slice_slope_share = 0.75,
                                      .drift = 0.0025,
                                      .pass = true};
  Record ours = {.point = {.problem = {.dtype = Dtype::f16},
                           .competitors = {{.kernel = "naive", .backend = Backend::cuda}}},
                 .sweep = "s",
                 .verify = {verdict},
                 .verify_timed = {verdict},
                 .device = device,
                 .protocol = default_protocol({.backend = Backend::cuda}),
                 .order = {0},
                 .command_line = "attnlab run",
                 .timestamp = "2025-01-01T00:00:00Z"};
  ours.protocol.cache = CacheState::cold;
  ours.protocol.regime = Regime::settled;
  ours.time = Timing{.samples_s = {1e-5}, .rounds_asked = 1, .timer = "events"};
  Record peer = ours;
  ours.timeline = TimelineRecord{.items = 64,
                                 .median_s = 1e-5,
                                 .timed_median_s = 1e-5,
                                 .idle_share_at_end = 0.04,
                                 .claim_to_begin_s = 2e-6,
                                 .describe_cycles = 500.0};
  ours.quantise = QuantiseRecord{
      .time =
          QuantiseTiming{
              .samples_s = {2e-6}, .median_s = 2e-6, .q1_s = 2e-6, .q3_s = 2e-6, .min_s = 2e-6},
      .bytes = 640,
      .compilations = {{.unit = "quantise-e4m3", .arch = "sm_90a", .compiler = "NVRTC 13.0"}}};
  peer.quantise = QuantiseRecord{.reason = "no memory"};
  ours.time->telemetry = judge_blocks(
      {{.samples = 1,
        .reading = {.multiprocessor_clock_hz = 1.5e9, .throttle_reasons = {"power cap"}}}},
      1e-5, "");
  ours.energy = EnergyRecord{.use = EnergyUse{.seconds = 1.0, .launches = 2.5, .joules = 5.0}};
  peer.time->telemetry = judge_blocks({}, 1e-5, "no NVML");
  peer.energy = EnergyRecord{.reason = "no NVML"};
  ours.time->graph = GraphTiming{.samples_s = {5e-6}};
  ours.time->outputs = OutputChecks{.sets = 2, .samples = 2, .launches = 3, .same_bits = true};
  peer.time->outputs = OutputChecks{.launches = 1, .reason = "a peer's outputs are its own"};
  ours.flops = Flops{.executed = 1};
  ours.memory = Memory{.peak_bytes = 1};
  ours.requested = Traffic();
  ours.compilations = {{.unit = "naive-f16",
                        .arch = "sm_90a",
                        .compiler = "NVRTC 13.0",
                        .text_sha256 = std::string(64, '5'),
                        .entries = {{.entry = {.name = "softmax", .threads = 256}}},
                        .advisories = {"C7508: ..."}}};
  ours.roof = Roof{.reason = "not measured"};
  ours.evidence = Evidence{.executed = {{{.symbol = "softmax",
                                          .registers = 40,
                                          .static_shared_bytes = 0,
                                          .dynamic_shared_bytes = 1024,
                                          .shared_bytes = 1024}}},
                           .as_asked = true};
  count(ours);
  peer.roof = roof_under(CeilingId::tensor_f16, CeilingId::hbm_read, Limit::memory);
  peer.point.competitors[0].kernel = "torch:flash";
  peer.flops = Flops();
  peer.peer = PeerEvidence{.version = "torch 2", .peak_bytes = 1, .launch_cost_hidden = true};
  const ExecutedKernel kernel = {.symbol = "fmha",
                                 .grid = {8, 2, 1},
                                 .block = {128, 1, 1},
                                 .shared_bytes = 1024,
                                 .seconds = 3e-6};
  peer.evidence = Evidence{
      .executed = {{kernel, kernel, {.symbol = "op", .grid = {}, .block = {}, .seconds = 1e-6}}},
      .as_asked = true};
  std::map<std::string, nlohmann::json> records = records_of_counters(ours);
  records["ours"] = to_json(ours);
  Record profiled = ours;
  profiled.compulsory_bytes = 1500;
  profiled.compilations[0].entries[0].entry.threads = 1;
  records["profiled"] =
      import_ncu_report(ncu_page({ncu_launch("softmax")}), "r.csv", {to_json(profiled)}).at(0);
  records["peer"] = to_json(peer);
  peer.point.competitors[0].backend = peer.device.backend = Backend::cpu;
  peer.energy.reset();
  records["peer on a CPU"] = to_json(peer);
  for (const CeilingId compute :
       {CeilingId::tensor_bf16, CeilingId::tensor_tf32, CeilingId::fma_f32}) {
    ours.roof = roof_under(compute, CeilingId::hbm_copy, Limit::compute);
    records[to_string(compute)] = to_json(ours);
  }
  return records;
}

}  // namespace attnlab
