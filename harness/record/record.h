// Holds one finished point: a self-contained JSON object on one line, "attnlab.record/1". The
// fields are documented in results/README.md; this struct is their one definition in code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/accounting.h"
#include "harness/plan/protocol.h"
#include "harness/plan/shard.h"
#include "harness/record/readings.h"
#include "kernels/api/counters.h"
#include "kernels/api/traffic.h"
#include "reference/verdict.h"

namespace attnlab {

inline constexpr const char* kRecordSchema = "attnlab.record/1";

enum class Status : std::uint8_t { ok, failed, unsupported, out_of_memory, invalid, skipped };
const char* to_string(Status status);

// Times the same launches replayed from a graph, for short ones: a replay costs less than a launch.
struct GraphTiming {
  std::vector<double> samples_s;  // seconds a launch
  int inner_launches = 1;
  double median_s = 0.0, q1_s = 0.0, q3_s = 0.0, min_s = 0.0;
};

// Says what was seen of the outputs of timed launches (harness/run/output_watch.h).
struct OutputChecks {
  int sets = 0;      // that launches rotated through; 0: of a peer, whose outputs are its own
  int samples = 0;   // before each all of the outputs were poisoned, after it none was left
  int launches = 0;  // untimed ones between samples, onto outputs that were filled before
  std::optional<bool> same_bits;  // last sample and first; of any order of sums: of o and lse alone
  std::string reason;             // why there are fewer than two sets, or nothing is compared
};

struct Timing {
  std::vector<double> samples_s;  // seconds a launch, in the order in which they were taken
  int inner_launches = 1;         // launches that each sample is the mean of
  int rounds_asked = 0;           // fewer samples: Protocol::max_seconds ended them
  std::optional<int> retries;     // Runtime::timer_retries() within the samples; empty: a peer's
  std::optional<double> at_work;  // median share of a turn in which it ran; empty: a burst
  int contenders = 1;             // kernels that took turns in its rounds, itself included
  double median_s = 0.0, q1_s = 0.0, q3_s = 0.0, min_s = 0.0;
  double ci95_low_s = 0.0, ci95_high_s = 0.0;  // bootstrap interval of the median
  std::string timer;
  std::optional<BlockTelemetry> telemetry;  // empty: nobody asked for it
  std::optional<GraphTiming> graph;
  std::optional<OutputChecks> outputs;  // empty: records of older versions
};

// Holds what a peer says of itself.
struct PeerEvidence {
  std::string version;
  std::string plan;               // which of its ways it chose; "": it does not say
  double verified_dropout = 0.0;  // of what was verified: it draws dropout masks of its own
  std::optional<std::uint64_t> peak_bytes;  // beside the inputs
  std::optional<bool> launch_cost_hidden;   // from all timed launches; empty: not timed
};

// Says which kernels a launch really ran, as the device or the peer reports.
struct Evidence {
  std::optional<std::vector<ExecutedKernel>> executed;  // empty: nobody could see
  std::optional<bool> as_asked;
  std::string reason;  // why nobody could, or what is not as asked
};

// Holds what the hardware counted in a pass of its own.
struct Counted {
  HardwareCounts a_launch;  // the mean of
  int launches = 1;
  L2State l2 = L2State::steady;
  double seconds = 0.0;                            // that it took, launches and all
  std::optional<double> tensor_flops_of_executed;  // empty: tensor instructions were not counted
  bool valid = false;
  std::string reason;  // why it is not valid, or not there at all
};

enum class ClaimVerdict : std::uint8_t { proved, unproved, rejected };
const char* to_string(ClaimVerdict verdict);

// Says whether the inputs came from where Protocol::cache says.
struct CacheClaim {
  CacheState claim = CacheState::hot;
  ClaimVerdict verdict = ClaimVerdict::unproved;
  std::optional<double> dram_reads_of_compulsory;  // counted over least
  std::string reason;                              // of every verdict but proved
};

// This says what a launch showed that wrote a timeline (kernels/shared/timeline.h). Such launches
// took turns with those that were timed.
struct TimelineRecord {
  std::int64_t items = 0;       // work items of a launch
  double median_s = 0.0;        // of launches with a timeline
  double timed_median_s = 0.0;  // of those without
  std::string reason;           // why it is void; empty: it holds
  // The last launch gave the rest. In this share of it a multiprocessor had done all its items: it
  // is the mean of those that had some.
  std::optional<double> idle_share_at_end;
  std::optional<double> claim_to_begin_s;  // from an item's claim to its first product, median
  std::optional<double> describe_cycles;   // that the scheduler takes to describe an item, median
};

// Says what the device's own kernels take to make the codes and scales of e4m3 that were timed
// (kernels/api/device_quantiser.h). No other time has it in it.
struct QuantiseTiming {
  std::vector<double> samples_s;  // seconds a launch of all of them
  int inner_launches = 1;
  double median_s = 0.0, q1_s = 0.0, q3_s = 0.0, min_s = 0.0;
};

struct QuantiseRecord {
  std::optional<QuantiseTiming> time;
  std::uint64_t bytes = 0;                // that a launch reads and writes
  std::string reason;                     // why there is no time
  std::vector<Compilation> compilations;  // of the quantiser
};

// Says which part of a sweep a point belongs to.
struct ShardOfPoint {
  ShardPart part;
  double share = 0.0;  // of the part's weight that is this point's
};

struct Record {
  Case point;  // with exactly one competitor
  std::string sweep;
  std::optional<ShardOfPoint> shard;  // empty: of the whole sweep
  Status status = Status::ok;
  std::string reason;                            // of every status but ok
  std::vector<reference::Verdict> verify;        // before timing
  std::vector<reference::Verdict> verify_timed;  // of the outputs that were timed
  std::optional<Timing> time;
  std::optional<EnergyRecord> energy;      // empty: nobody asked for it
  std::optional<TimelineRecord> timeline;  // likewise
  std::optional<QuantiseRecord> quantise;  // of e4m3 on a GPU alone
  std::optional<Flops> flops;
  std::optional<Memory> memory;
  std::optional<Traffic> requested;
  std::optional<std::int64_t> compulsory_bytes;
  std::optional<PatternSummary> pattern;
  std::optional<PeerEvidence> peer;
  std::optional<Evidence> evidence;  // of peers, and, as the next two, of what a GPU timed
  std::optional<Counted> counted;
  std::optional<CacheClaim> cache_claim;
  std::optional<Roof> roof;               // of what was timed
  std::vector<Compilation> compilations;  // of what ran, with what ran before a backward
  Device device;
  Protocol protocol;
  std::vector<int> order;  // this competitor's place in each round, as shuffled
  std::string command_line;
  std::string timestamp;  // ISO 8601, UTC
};

}  // namespace attnlab
