// One finished point: a self-contained JSON object on one line, "attnlab.record/1". The fields are
// documented in results/README.md; this struct is their one definition in code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/blocks.h"
#include "harness/energy.h"
#include "harness/roof.h"
#include "harness/sweep.h"
#include "kernels/api/counters.h"
#include "kernels/api/traffic.h"
#include "reference/verdict.h"

namespace attnlab {

inline constexpr const char* kRecordSchema = "attnlab.record/1";

enum class Status : std::uint8_t { ok, failed, unsupported, out_of_memory, invalid, skipped };
const char* to_string(Status status);

// The same launches replayed from a graph, which costs less than launching: of short ones.
struct GraphTiming {
  std::vector<double> samples_s;  // seconds a launch
  int inner_launches = 1;
  double median_s = 0.0, q1_s = 0.0, q3_s = 0.0, min_s = 0.0;
};

struct Timing {
  std::vector<double> samples_s;  // seconds a launch, in the order in which they were taken
  int inner_launches = 1;         // launches that each sample is the mean of
  int rounds_asked = 0;           // fewer samples: Protocol::max_seconds ended them
  int contenders = 1;             // kernels that took turns in its rounds, itself included
  double median_s = 0.0, q1_s = 0.0, q3_s = 0.0, min_s = 0.0;
  double ci95_low_s = 0.0, ci95_high_s = 0.0;  // bootstrap interval of the median
  std::string timer;
  std::optional<BlockTelemetry> telemetry;  // empty: nobody asked for it
  std::optional<GraphTiming> graph;
};

struct Flops {
  std::int64_t useful = 0;               // 4 * A * d forward, 10 * A * d backward; A: visible pairs
  std::optional<std::int64_t> executed;  // whole tiles; empty: not known, of a peer
  std::int64_t paper = 0;                // 4 * sq * sk * d * h * b, halved for causal
};

// o is an output of fwd and fwdbwd and an input of bwd; what a forward leaves for its backward
// beside o stands apart in every pass.
struct Memory {
  std::uint64_t inputs_bytes = 0;   // q, k, v, lists; with a backward dO
  std::uint64_t outputs_bytes = 0;  // o; dQ, dK, dV
  std::uint64_t saved_bytes = 0;    // lse, and what the kernel itself saves (naive: P)
  std::uint64_t workspace_bytes = 0;
  std::optional<std::uint64_t> peak_bytes;  // measured by the arena while this competitor ran
};

// The bytes of a block mask, so that a pattern from a file can be recognised.
struct PatternSummary {
  double visible_fraction = 0.0;  // of the blocks
  std::uint64_t hash = 0;         // fnv1a() of the bytes, row by row, 1: visible
};

// What a peer says of itself.
struct PeerEvidence {
  std::string version;
  double verified_dropout = 0.0;  // of what was verified: it draws dropout masks of its own
  std::optional<std::uint64_t> peak_bytes;  // beside the inputs
  std::optional<bool> launch_cost_hidden;   // from all timed launches; empty: not timed
};

// Which kernels a launch really ran, as the device or the peer says.
struct Evidence {
  std::optional<std::vector<ExecutedKernel>> executed;  // empty: nobody could see
  std::optional<bool> as_asked;
  std::string reason;  // why nobody could, or what is not as asked
};

// What the hardware counted in a pass of its own.
struct Counted {
  HardwareCounts a_launch;  // the mean of
  int launches = 1;
  L2State l2 = L2State::steady;
  double seconds = 0.0;  // that it took, launches and all
  bool valid = false;
  std::string reason;  // why it is not valid, or not there at all
};

enum class ClaimVerdict : std::uint8_t { proved, unproved, rejected };
const char* to_string(ClaimVerdict verdict);

// Whether the inputs came from where Protocol::cache says.
struct CacheClaim {
  CacheState claim = CacheState::hot;
  ClaimVerdict verdict = ClaimVerdict::unproved;
  std::optional<double> dram_reads_of_compulsory;  // counted over least
  std::string reason;                              // of every verdict but proved
};

struct Record {
  Case point;  // with exactly one competitor
  std::string sweep;
  Status status = Status::ok;
  std::string reason;                            // of every status but ok
  std::vector<reference::Verdict> verify;        // before timing
  std::vector<reference::Verdict> verify_timed;  // of the outputs that were timed
  std::optional<Timing> time;
  std::optional<EnergyRecord> energy;  // empty: nobody asked for it
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

nlohmann::ordered_json to_json(const Record& record);

// Identifies a point across files: id, kernel, backend, config, input kind, seed, cold or hot.
std::string record_key(const nlohmann::ordered_json& record);

// Of several records of one point, the last; in their order.
std::vector<nlohmann::ordered_json> last_of_each_point(
    const std::vector<nlohmann::ordered_json>& records);

// Records that could not be saved, as on a full disk; the message names the file and says why.
class NotSaved : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A file of records that this process alone writes, until the object is gone. Creates the file and
// its folder. Where the file cannot be written append() throws NotSaved, all others UsageError.
class RecordFile {
 public:
  // Changes nothing of what is there. Throws UsageError if another process has the file.
  explicit RecordFile(const std::filesystem::path& file);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // Cuts off what a kill or a power cut left of a last record, and ends a last line that lacks its
  // newline. Returns what was done, "" if all was well. Throws UsageError, and changes nothing, if
  // the last line is neither a record nor the beginning of one.
  std::string repair();

  // One line each, all with one write() and fsync, so that what is finished survives a kill.
  // Repairs the file first if nobody has. Where it throws, the file is as it was.
  void append(const std::vector<nlohmann::ordered_json>& records);

 private:
  void write_all(const std::string& text);
  void flush();

  std::filesystem::path path_;
  int descriptor_ = -1;
  bool repaired_ = false;
};

// Reads JSON lines; blank ones are nothing. Throws UsageError naming file and line for anything
// that is not an "attnlab.record/1", for a key that an object of it holds twice, and (naming the
// key) for a value that cannot be; a half-written end is left out and reported in `warnings`.
std::vector<nlohmann::ordered_json> read_records(const std::filesystem::path& file,
                                                 std::vector<std::string>& warnings);

}  // namespace attnlab
