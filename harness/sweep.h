// What to run: axes whose product (or several, and their union) is a list of cases. A sweep comes
// from a JSON file, from flags, or from a file with axes overridden by flags; all three pass
// through the same grammar, so a key of the file and a flag of the same name take the same values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/api/registry.h"

namespace attnlab {

struct QkvTensors;

// `file`: the user's own tensors; no value of the axis.
enum class InputKind : std::uint8_t {
  normal,
  uniform,
  integers,
  large_logits,
  outlier,
  outlier_channel,
  file
};
const char* to_string(InputKind kind);

// hot: launches find the inputs where the launch before left them. cold: they go round through so
// many copies of the inputs that no cache holds one until it is read again.
enum class CacheState : std::uint8_t { hot, cold };
const char* to_string(CacheState cache);

// burst: the device rests between samples, and is cool. settled: it is under load all the time, and
// a GPU's clock is what its power limit leaves.
enum class Regime : std::uint8_t { burst, settled };
const char* to_string(Regime regime);

// How each case is measured and verified (docs: results/README.md). The values here are those of
// the CPU.
struct Protocol {
  int min_rounds = 9;  // interleaved rounds that every competitor gets
  int max_rounds = 100;
  double max_seconds = 15.0;  // hard stop of the timing of one competitor
  double interval = 0.005;    // stop when the 95 % interval of the median is within this share
  double warmup_seconds = 0.2;
  int warmup_launches = 1;  // at least
  CacheState cache = CacheState::hot;
  Regime regime = Regime::burst;
  std::int64_t verify_multiply_adds = std::int64_t{1} << 28;  // budget of the oracle for one case
  bool operator==(const Protocol&) const = default;
};

Protocol default_protocol(Backend backend);

// What a sweep says of its protocol; the rest is the backend's default.
struct ProtocolSettings {
  std::optional<int> min_rounds, max_rounds, warmup_launches;
  std::optional<double> max_seconds, interval, warmup_seconds;
  std::optional<CacheState> cache;
  std::optional<Regime> regime;
  std::optional<std::int64_t> verify_multiply_adds;
  bool operator==(const ProtocolSettings&) const = default;
};

// Throws UsageError where the two do not go together: cold caches on a CPU.
Protocol resolve(const ProtocolSettings& settings, Backend backend);

// The axes in the order in which the product is formed: the first changes slowest. An empty
// optional axis is "the kernel's default" or "the same as".
struct Axes {
  std::vector<Pass> pass = {Pass::fwd};
  std::vector<Dtype> dtype = {Dtype::f32};
  std::vector<Layout> layout = {Layout::bshd};
  std::vector<std::int64_t> batch = {1};
  std::vector<std::int64_t> heads = {8};
  std::vector<std::int64_t> heads_kv;  // empty: as heads
  std::vector<std::int64_t> head_dim = {64};
  std::vector<MaskSpec> mask = {MaskSpec{}};
  std::vector<Lengths> lengths = {
      Lengths{}};  // not `given`: drawn from the seed; kind is left open
  std::vector<double> dropout = {0.0};
  std::vector<std::int64_t> seqlen;  // both, unless one of the next two is given; empty: 1024
  std::vector<std::int64_t> seqlen_q;
  std::vector<std::int64_t> seqlen_k;
  std::vector<InputKind> input_kind = {InputKind::normal};
  std::vector<std::uint64_t> seed = {7};
  std::vector<std::string> kernel;  // empty: every kernel of the backend
  // Of the kernels' configs; empty: their defaults.
  std::vector<std::pair<std::int64_t, std::int64_t>> block;  // block_m, block_n
  std::vector<std::int64_t> sram;
  std::vector<std::int64_t> warps;
  std::vector<std::int64_t> stages;
  std::vector<std::int64_t> consumers;
  std::vector<std::int64_t> producer;
  std::vector<std::int64_t> overlap;
  std::vector<std::int64_t> ping_pong;
  std::vector<std::int64_t> deterministic;
  std::vector<std::int64_t> schedule_seed;
  std::vector<std::int64_t> tf32;
};

enum class BackendChoice : std::uint8_t { automatic, cpu, cuda };

// Points that match every named value are recorded as skipped with the reason.
struct Exclusion {
  std::vector<std::pair<std::string, std::vector<std::string>>> where;  // axis -> canonical values
  std::string reason;
};

struct Sweep {
  std::string name;
  std::string description;
  std::string source;  // the file it came from, or "command line"
  BackendChoice backend = BackendChoice::automatic;
  std::vector<Axes> axes = {Axes{}};  // the union of their products
  std::vector<std::string> peers;     // that compete with the kernels on every case
  std::vector<Exclusion> exclude;
  bool tune = false;  // every config that a kernel wants tried, where axes leave its values open
  bool overridden = false;  // flags replaced axes of the file: an exclusion may match no point
  ProtocolSettings protocol;
  std::shared_ptr<const QkvTensors> input;  // not null: of all cases (use_input_file() sets it)
};

// One kernel that runs a case, or the reason why it does not.
struct Competitor {
  std::string kernel;  // or a peer, like "torch:flash" (harness/peer.h)
  Backend backend = Backend::cpu;
  // Null: a peer, or no such kernel on this backend.
  const Implementation* implementation = nullptr;
  Config config;  // that runs
  Config asked;   // as it was asked for, where `config` fills in what it leaves open; else empty
  std::string unsupported;  // not empty: recorded as `unsupported`
  std::string skipped;      // not empty: recorded as `skipped` (an exclusion's reason)
  bool tried = false;       // for tuning; nobody asked for it
};

// One problem with one set of inputs, and all that compete on it, interleaved.
struct Case {
  Problem problem;
  InputKind input_kind = InputKind::normal;
  std::uint64_t seed = 0;
  std::vector<Competitor> competitors;
  std::shared_ptr<const QkvTensors> input;  // InputKind::file: where q, k, v come from
};

// Sets one axis of all products from its text, e.g. ("seqlen", "512:8192:x2"), ("mask",
// "none,causal"),
// ("block", "64x64,128x128"). `where` names the flag or the file and key for the error message.
// Throws UsageError.
void set_axis(Sweep& sweep, std::string_view axis, std::string_view text, const std::string& where);

// Sets keys of the protocol: "min_rounds=3,warmup_seconds=0.1", with the keys of a sweep file's
// protocol. Throws UsageError, led by `where`.
void set_protocol(Sweep& sweep, std::string_view text, const std::string& where);

// What set_protocol() takes: the keys that differ from the backend's defaults; "" if none does.
std::string to_string(const Protocol& protocol, Backend backend);

// The axis names that set_axis takes, each with a one-line description and an example value.
struct AxisHelp {
  const char* name;
  const char* values;
  const char* summary;
};
const std::vector<AxisHelp>& axis_help();

// Whether a file is a sweep by its name: *.json, but no JSON Schema, *.schema.json.
bool is_sweep_name(const std::filesystem::path& path);

// Reads a sweep file, strictly: throws UsageError naming file and key for anything unknown,
// misspelt (with the nearest known name), out of range, or of the wrong type.
Sweep read_sweep(const std::filesystem::path& path);

// The products of the axes, a problem that several of them hold being one case, with kernels looked
// up, each kernel's config projected on the axes it declares (so a kernel without blocks runs once,
// not once per block) and, where it is supported, with what it leaves open filled in
// (Implementation::resolved), duplicates removed, lengths that are not given drawn from the seed. A
// device without a name stands for a backend that this machine does not have: every competitor is
// then unsupported. Throws UsageError for an impossible combination that was asked for (heads not
// divisible by heads_kv, ...), naming sweep and axis.
std::vector<Case> expand(const Sweep& sweep, const Registry& registry, const Device& device);

}  // namespace attnlab
