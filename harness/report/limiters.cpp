#include "harness/report/limiters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "harness/measure/blocks.h"
#include "harness/measure/ceiling_limits.h"
#include "harness/measure/possible_time.h"
#include "harness/measure/roof.h"
#include "harness/record/record_json.h"
#include "harness/report/fields.h"

namespace attnlab {
namespace {

constexpr double kTera = 1e12, kMega = 1e6;

// Each limiter binds from such a share on. A pipe or a memory that is busy for 70 % of the time
// leaves little room for anything else; what is lost binds earlier, for all of it can be won.
constexpr double kBusy = 0.7;
constexpr double kLostToClock = 0.1, kLostToLaunch = 0.2, kLostToFewTiles = 0.25,
                 kLostToTail = 0.15, kLostToConflicts = 0.15;

struct Rate {
  double per_s = 0.0;
  std::string source;
};

// Holds what the shares are made of.
struct Point {
  const RecordJson& record;
  const TileFacts& facts;
  const Peaks* peaks;
  std::optional<double> seconds;  // the median; empty: on paper
};

std::optional<double> finite(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? value : std::nullopt;
}

LimiterShare missing(Limiter limiter, const std::string& reason) {
  return {.limiter = limiter, .reason = reason};
}

LimiterShare found(Limiter limiter, double share, double binds_at, const std::string& number,
                   const std::string& source) {
  if (!std::isfinite(share)) return missing(limiter, "its share is no number");
  return {.limiter = limiter,
          .share = share,
          .weight = share / binds_at,
          .number = number,
          .source = source};
}

bool is_settled_run(const RecordJson& record) {
  return at(record, {"protocol", "regime"}) == to_string(Regime::settled);
}

bool is_gpu(const RecordJson& record) { return at(record, {"device", "cuda"}).is_object(); }

// Returns what limits and data sheets ask of a device; older records do not say all of one.
Device chip_of(const RecordJson& record) {
  const auto number = [&](std::vector<const char*> path) {
    return number_at(record, path).value_or(0.0);
  };
  return {.backend = Backend::cuda,
          .name = at(record, {"device", "name"}).get<std::string>(),
          .memory_bytes = static_cast<std::uint64_t>(number({"device", "memory_bytes"})),
          .compute_capability = static_cast<int>(number({"device", "cuda", "compute_capability"})),
          .multiprocessors = static_cast<int>(number({"device", "cuda", "multiprocessors"})),
          .max_clock_hz = number({"device", "cuda", "max_clock_hz"})};
}

std::optional<double> clock_of(const RecordJson& record) {
  return number_at(record, {"time", "telemetry", "mean_clock_hz"});
}

// Returns the rate of the regime in which the point was timed.
std::optional<Rate> measured_rate(const Point& point, CeilingId id) {
  const Ceiling* const ceiling = point.peaks == nullptr ? nullptr : find_ceiling(*point.peaks, id);
  if (ceiling == nullptr) return std::nullopt;
  const bool settled = is_settled_run(point.record);
  return Rate{.per_s = (settled ? ceiling->settled : ceiling->burst).per_s,
              .source = fmt::format("{}, {}", to_string(id), settled ? "settled" : "burst")};
}

std::optional<Rate> rate_of_roof(const RecordJson& record, const char* kind, const char* key) {
  const std::optional<double> rate = number_at(record, {"roof", "peaks", key});
  if (!rate || !(*rate > 0.0)) return std::nullopt;
  return Rate{
      .per_s = *rate,
      .source = fmt::format("roof's {}", at(record, {"roof", "peaks", kind}).get<std::string>())};
}

std::optional<Rate> datasheet(const RecordJson& record, CeilingId id) {
  if (!is_gpu(record)) return std::nullopt;
  const std::optional<double> rate = datasheet_rate(id, chip_of(record));
  if (!rate) return std::nullopt;
  return Rate{.per_s = *rate, .source = "data sheet"};
}

// Returns what the chip's units do at the clock that was seen, or else at its highest.
std::optional<Rate> chip_rate(const Point& point, Dtype dtype) {
  if (!is_gpu(point.record)) return std::nullopt;
  const Device chip = chip_of(point.record);
  const auto each = flops_per_clock(chip.compute_capability, dtype, point.facts.tf32);
  const double clock = clock_of(point.record).value_or(chip.max_clock_hz);
  if (!each || !(clock > 0.0)) return std::nullopt;
  return Rate{.per_s = *each * chip.multiprocessors * clock,
              .source = fmt::format("chip at {:.0f} MHz", clock / kMega)};
}

std::optional<Rate> compute_rate(const Point& point) {
  const Dtype dtype = dtype_of(point.record);
  const std::optional<CeilingId> id = compute_ceiling(dtype, point.facts.tf32);
  if (!id) return chip_rate(point, dtype);
  if (const auto rate = measured_rate(point, *id)) return rate;
  if (const auto rate = rate_of_roof(point.record, "compute", "flops_per_s")) return rate;
  if (const auto rate = chip_rate(point, dtype)) return rate;
  return datasheet(point.record, *id);
}

// Returns the rate of copies where a good part is written, else of reads.
std::optional<Rate> memory_rate(const Point& point, double read, double written) {
  const bool copies = written > 0.25 * (read + written);
  const CeilingId first = copies ? CeilingId::hbm_copy : CeilingId::hbm_read;
  if (const auto rate = measured_rate(point, first)) return rate;
  if (const auto rate = rate_of_roof(point.record, "memory", "bytes_per_s")) return rate;
  return datasheet(point.record, first);
}

// Compares the work of a pipe or a memory with what it can do.
struct Busy {
  Limiter limiter = Limiter::tensor;
  double work = 0.0;
  Rate rate;
  double unit = kTera;
  const char* unit_name = "TFLOP/s";
  std::string what;    // of the work: a field of the record
  std::string reason;  // why there is nothing

  double seconds() const { return work / rate.per_s; }
};

Busy nothing(Limiter limiter, const std::string& reason) {
  return {.limiter = limiter, .reason = reason};
}

Busy tensor_work(const Point& point) {
  const std::optional<double> executed = number_at(point.record, {"flops", "executed"});
  const std::optional<double> useful = number_at(point.record, {"flops", "useful"});
  const std::optional<double> flops = executed ? executed : useful;
  if (!flops) return nothing(Limiter::tensor, "its FLOPs are not known");
  const std::optional<Rate> rate = compute_rate(point);
  if (!rate) return nothing(Limiter::tensor, "no rate of this device is known");
  return {.limiter = Limiter::tensor,
          .work = *flops,
          .rate = *rate,
          .what = executed ? "executed" : "useful"};
}

struct Moved {
  std::optional<double> read, written;  // bytes
};

// Returns what was counted, or `on_paper` where nothing was measured.
Moved bytes_moved(const Point& point, const char* memory, const Moved& on_paper) {
  if (!point.seconds) return on_paper;
  if (at(point.record, {"traffic", "valid"}) != true) return {};
  return {.read = number_at(point.record, {"traffic", memory, "read_bytes"}),
          .written = number_at(point.record, {"traffic", memory, "write_bytes"})};
}

Busy dram_work(const Point& point) {
  const auto [read, written] = bytes_moved(
      point, "dram",
      {.read = number_at(point.record, {"traffic", "compulsory_bytes"}), .written = 0.0});
  if (!read || !written) return nothing(Limiter::dram, "its bytes were not counted");
  const std::optional<Rate> rate = memory_rate(point, *read, *written);
  if (!rate) return nothing(Limiter::dram, "no rate of this memory is known");
  return {.limiter = Limiter::dram,
          .work = *read + *written,
          .rate = *rate,
          .unit_name = "TB/s",
          .what = point.seconds ? "counted" : "compulsory"};
}

Busy l2_work(const Point& point) {
  const auto [read, written] =
      bytes_moved(point, "l2",
                  {.read = number_at(point.record, {"traffic", "requested_read_bytes"}),
                   .written = number_at(point.record, {"traffic", "requested_write_bytes"})});
  if (!read || !written) return nothing(Limiter::l2, "its bytes were not counted");
  const std::optional<Rate> rate = measured_rate(point, CeilingId::l2_read);
  if (!rate) return nothing(Limiter::l2, "its rate is not known: attnlab peak, or --peaks");
  return {.limiter = Limiter::l2,
          .work = *read + *written,
          .rate = *rate,
          .unit_name = "TB/s",
          .what = point.seconds ? "counted" : "requested"};
}

// Counts one exponential a visible pair and pass, which is the least. Kernels without tiles keep P.
std::optional<double> exponentials(const RecordJson& record) {
  const std::optional<double> useful = number_at(record, {"flops", "useful"});
  const std::optional<double> head_dim = number_at(record, {"problem", "head_dim"});
  const RecordJson tiles = at(record, {"traffic", "tiles"});
  if (!useful || !head_dim || !tiles.is_object()) return std::nullopt;
  if (std::ranges::all_of(tiles, [](const RecordJson& count) { return count == 0; })) {
    return std::nullopt;
  }
  const RecordJson pass = at(record, {"problem", "pass"});
  if (pass == to_string(Pass::fwd)) return *useful / (4.0 * *head_dim);
  if (pass == to_string(Pass::bwd)) return *useful / (10.0 * *head_dim);
  return 2.0 * *useful / (14.0 * *head_dim);
}

Busy exponential_work(const Point& point) {
  const std::optional<double> count = exponentials(point.record);
  if (!count) return nothing(Limiter::exponentials, "its schedule counts no tiles");
  std::optional<Rate> rate = measured_rate(point, CeilingId::ex2);
  if (!rate) rate = datasheet(point.record, CeilingId::ex2);
  if (!rate) return nothing(Limiter::exponentials, "no rate of this device is known");
  return {.limiter = Limiter::exponentials,
          .work = *count,
          .rate = *rate,
          .unit_name = "Top/s",
          .what = "visible pairs"};
}

std::vector<Busy> busy_parts(const Point& point) {
  return {tensor_work(point), dram_work(point), l2_work(point), exponential_work(point)};
}

std::string short_number(double value) {
  return value >= 100.0 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

// On paper the work that takes longest binds, whatever its share.
LimiterShare busy_finding(const Busy& busy, double seconds) {
  if (!busy.reason.empty()) return missing(busy.limiter, busy.reason);
  return found(busy.limiter, busy.seconds() / seconds, kBusy,
               fmt::format("{} of {} {}", short_number(busy.work / seconds / busy.unit),
                           short_number(busy.rate.per_s / busy.unit), busy.unit_name),
               fmt::format("{}; {}", busy.what, busy.rate.source));
}

// Tells how long tensor pipes worked while they were counted, which may say more than the FLOPs:
// mma.sync never reaches the rate of wgmma. Multiprocessors without a work item were not counted.
std::optional<LimiterShare> counted_pipes(const Point& point) {
  constexpr double kAllPipes = 400.0;  // percent: the four of a multiprocessor are added
  const auto percent = number_at(point.record, {"counters", "tensor_active_percent"});
  if (!percent || at(point.record, {"traffic", "valid"}) != true) return std::nullopt;
  const Waves waves = waves_of(point.record, point.facts);
  const double at_work = waves.items ? std::min(1.0, *waves.items / waves.multiprocessors) : 1.0;
  return found(Limiter::tensor, at_work * *percent / kAllPipes, kBusy,
               fmt::format("{:.0f} of {:.0f} % of cycles", *percent, kAllPipes),
               "counted, pipes at work");
}

LimiterShare tensor_finding(const Point& point, const Busy& busy, double seconds) {
  const LimiterShare by_rate = busy_finding(busy, seconds);
  const std::optional<LimiterShare> counted = counted_pipes(point);
  if (!counted || !counted->share) return by_rate;
  return by_rate.weight > counted->weight ? by_rate : *counted;
}

struct Reasons {
  int readings = 0, held = 0;  // of the clock; in which something held it down
  std::string most;            // what did most often
};

Reasons clock_reasons(const RecordJson& blocks) {
  Reasons reasons;
  std::map<std::string, int> counts;
  for (const RecordJson& block : blocks) {
    ++reasons.readings;
    const RecordJson names = at(block, {"throttle_reasons"});
    if (!names.is_array() || names.empty()) continue;
    ++reasons.held;
    for (const RecordJson& name : names) ++counts[name.get<std::string>()];
  }
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
  if (most != counts.end()) reasons.most = most->first;
  return reasons;
}

LimiterShare clock_finding(const Point& point, bool dram_binds) {
  const std::optional<double> clock = clock_of(point.record);
  const auto highest = number_at(point.record, {"device", "cuda", "max_clock_hz"});
  const RecordJson blocks = at(point.record, {"time", "telemetry", "blocks"});
  if (!clock || !highest || !(*highest > 0.0) || !blocks.is_array()) {
    return missing(Limiter::clock, "nothing read the clock");
  }
  const Reasons reasons = clock_reasons(blocks);
  LimiterShare finding = found(
      Limiter::clock, std::max(0.0, 1.0 - *clock / *highest), kLostToClock,
      fmt::format("{:.0f} of {:.0f} MHz", *clock / kMega, *highest / kMega),
      reasons.held == 0
          ? fmt::format("free in {0} of {0} readings", reasons.readings)
          : fmt::format("{}, {} of {} readings", reasons.most, reasons.held, reasons.readings));
  // A clock that nothing holds down was read while the GPU rested, and the memory has its own.
  if (2 * reasons.held <= reasons.readings || dram_binds) finding.weight = 0.0;
  return finding;
}

LimiterShare unsettled_finding(const Point& point) {
  const RecordJson settled = at(point.record, {"time", "telemetry", "settled"});
  const std::optional<Unsettled> off = unsettled_of(point.record);
  if (!settled.is_boolean() || !off) return missing(Limiter::unsettled, "nothing read the clock");
  // The doubt is about the time itself, so it has no share of the time.
  return {.limiter = Limiter::unsettled,
          .weight = settled == true ? 0.0 : 1.0,
          .number = off->at_work
                        ? fmt::format("at work {:.0f} % of a turn", 100.0 * *off->at_work)
                        : fmt::format("{:.0f} of {:.0f} {} off", off->marked, off->all, off->what),
          .source = settled == true ? "settled" : "did not settle"};
}

LimiterShare launch_finding(const Point& point) {
  const auto graph = number_at(point.record, {"time", "graph", "median_s"});
  if (!graph) return missing(Limiter::launch, "no replay from a graph was timed");
  const double seconds = *point.seconds;
  return found(Limiter::launch, std::max(0.0, 1.0 - *graph / seconds), kLostToLaunch,
               fmt::format("{:.2f} us, replayed {:.2f}", seconds * kMega, *graph * kMega),
               "time, time.graph");
}

LimiterShare few_tiles_finding(const Waves& waves) {
  if (!waves.items) return missing(Limiter::few_tiles, waves.reason);
  return found(Limiter::few_tiles, std::max(0.0, 1.0 - *waves.items / waves.multiprocessors),
               kLostToFewTiles,
               fmt::format("{:.0f} {}, {:.0f} SMs", *waves.items,
                           waves.seen ? "items" : "row tiles", waves.multiprocessors),
               "grid, schedule");
}

// Returns what a timeline saw of the launch's end, if there is one that holds.
std::optional<double> seen_idle_at_end(const RecordJson& record) {
  if (at(record, {"timeline", "void"}) != false) return std::nullopt;
  return finite(number_at(record, {"timeline", "idle_share_at_end"}));
}

LimiterShare tail_finding(const RecordJson& record, const Waves& waves) {
  if (const std::optional<double> idle = seen_idle_at_end(record)) {
    return found(Limiter::tail, *idle, kLostToTail,
                 fmt::format("{:.1f} % idle at the end", 100.0 * *idle), "timeline");
  }
  if (!waves.items || !waves.places) return missing(Limiter::tail, waves.reason);
  if (!waves.equal) return missing(Limiter::tail, "its work items are not equally long");
  if (*waves.items < waves.multiprocessors) {
    return missing(Limiter::tail, "there is one wave, not full");
  }
  // In a single wave those multiprocessors end first that hold a block less than others.
  const double places = *waves.items <= *waves.places ? waves.multiprocessors : *waves.places;
  return found(Limiter::tail, idle_share(*waves.items, places), kLostToTail,
               fmt::format("{:.0f} items, {:.0f} places", *waves.items, *waves.places),
               "grid, compile");
}

LimiterShare spill_finding(const RecordJson& record) {
  const RecordJson entry = main_entry(record);
  const auto stored = number_at(entry, {"spill_store_bytes"});
  const auto loaded = number_at(entry, {"spill_load_bytes"});
  if (!stored || !loaded) return missing(Limiter::spills, "what was compiled for it is not known");
  // Spills have no share of the time: they bind where nothing else binds more clearly.
  constexpr double kBinds = 1.01;
  const double bytes = *stored + *loaded;
  return {.limiter = Limiter::spills,
          .weight = bytes > 0.0 ? kBinds : 0.0,
          .number = fmt::format("{:.0f} bytes a thread", bytes),
          .source = fmt::format("compile: {} registers", exact(at(entry, {"registers"})))};
}

LimiterShare conflict_finding(const Point& point) {
  const std::optional<SharedConflicts> counted = shared_conflicts(point.record);
  if (!counted) {
    return missing(Limiter::shared_memory, "not counted: run --further-counters");
  }
  const Device chip = chip_of(point.record);
  const double clock = clock_of(point.record).value_or(chip.max_clock_hz);
  const double cycles = clock * chip.multiprocessors * *point.seconds;
  if (!(cycles > 0.0)) return missing(Limiter::shared_memory, "its clock is not known");
  const double conflicts = counted->loads + counted->stores;
  return found(Limiter::shared_memory, conflicts / cycles, kLostToConflicts,
               fmt::format("{} of {} M wavefronts", short_number(conflicts / kMega),
                           short_number(counted->wavefronts / kMega)),
               "further counters");
}

// Returns the kernel that takes the time: the only one, or the one that took most of it while
// traced.
RecordJson main_kernel(const RecordJson& record) {
  const RecordJson executed = at(record, {"evidence", "executed"});
  if (!executed.is_array() || executed.empty()) return nullptr;
  if (executed.size() == 1) return executed.front();
  constexpr double kMost = 0.6;
  double all = 0.0;
  RecordJson longest;
  for (const RecordJson& kernel : executed) {
    const std::optional<double> seconds = number_at(kernel, {"seconds"});
    if (!seconds) return nullptr;
    all += *seconds;
    if (longest.is_null() || *seconds > longest["seconds"].get<double>()) longest = kernel;
  }
  return longest["seconds"].get<double>() >= kMost * all ? longest : RecordJson();
}

std::optional<double> grid_blocks(const RecordJson& kernel) {
  const RecordJson grid = at(kernel, {"grid"});
  if (!grid.is_array() || number_at(kernel, {"launches"}).value_or(1.0) != 1.0) {
    return std::nullopt;
  }
  double blocks = 1.0;
  for (const RecordJson& size : grid) blocks *= size.get<double>();
  return blocks;
}

std::vector<RecordJson> compiled_entries(const RecordJson& record) {
  std::vector<RecordJson> all;
  const RecordJson units = at(record, {"compile"});
  if (!units.is_array()) return all;
  for (const RecordJson& unit : units) {
    const RecordJson entries = at(unit, {"entries"});
    if (entries.is_array()) all.insert(all.end(), entries.begin(), entries.end());
  }
  return all;
}

bool has_equal_items(const RecordJson& record) {
  return at(record, {"problem", "mask"}) == "none" && at(record, {"problem", "blocks"}).is_null() &&
         at(record, {"problem", "lengths", "kind"}) == to_string(LengthsKind::dense);
}

// Puts unsettled times first, then the larger weight; what does not bind follows by its share.
bool comes_before(const LimiterShare& a, const LimiterShare& b) {
  const auto rank = [](const LimiterShare& finding) {
    if (!finding.reason.empty()) return 3;
    if (!finding.binds()) return 2;
    return finding.limiter == Limiter::unsettled ? 0 : 1;
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b);
  if (rank(a) == 1) return a.weight > b.weight;
  return rank(a) == 2 && a.share.value_or(0.0) > b.share.value_or(0.0);
}

// Returns the time of what takes longest.
std::optional<double> paper_seconds(const std::vector<Busy>& parts) {
  std::optional<double> longest;
  for (const Busy& busy : parts) {
    if (busy.reason.empty()) longest = std::max(longest.value_or(0.0), busy.seconds());
  }
  return finite(longest);
}

std::vector<LimiterShare> on_paper(const Point& point, const std::vector<Busy>& parts) {
  std::vector<LimiterShare> findings;
  const std::optional<double> seconds = paper_seconds(parts);
  for (const Busy& busy : parts) {
    findings.push_back(seconds ? busy_finding(busy, *seconds) : missing(busy.limiter, busy.reason));
    // It is a bound: the longest of several that may all overlap.
    if (findings.back().share.value_or(0.0) < 1.0) findings.back().weight = 0.0;
  }
  findings.push_back(few_tiles_finding(waves_of(point.record, point.facts)));
  return findings;
}

std::vector<LimiterShare> as_measured(const Point& point, const std::vector<Busy>& parts) {
  std::vector<LimiterShare> findings;
  bool dram_binds = false;
  for (const Busy& busy : parts) {
    findings.push_back(busy.limiter == Limiter::tensor ? tensor_finding(point, busy, *point.seconds)
                                                       : busy_finding(busy, *point.seconds));
    dram_binds |= busy.limiter == Limiter::dram && findings.back().binds();
  }
  const Waves waves = waves_of(point.record, point.facts);
  findings.push_back(unsettled_finding(point));
  findings.push_back(clock_finding(point, dram_binds));
  findings.push_back(launch_finding(point));
  findings.push_back(few_tiles_finding(waves));
  findings.push_back(tail_finding(point.record, waves));
  findings.push_back(spill_finding(point.record));
  findings.push_back(conflict_finding(point));
  return findings;
}

Point point_of(const RecordJson& record, const TileFacts& facts, const Peaks* peaks) {
  std::optional<double> median = number_at(record, {"time", "median_s"});
  if (median && !(*median > 0.0)) median.reset();
  return {.record = record, .facts = facts, .peaks = peaks, .seconds = median};
}

}  // namespace

const char* to_string(Limiter limiter) {
  switch (limiter) {
    case Limiter::unsettled: return "unsettled";
    case Limiter::clock: return "clock";
    case Limiter::tensor: return "products";
    case Limiter::dram: return "dram";
    case Limiter::l2: return "L2";
    case Limiter::exponentials: return "exponentials";
    case Limiter::shared_memory: return "bank conflicts";
    case Limiter::launch: return "launch";
    case Limiter::few_tiles: return "too few tiles";
    case Limiter::tail: return "idle tail";
    case Limiter::spills: break;
  }
  return "spills";
}

double idle_share(double items, double places) {
  const double waves = items / places;
  return 1.0 - waves / std::ceil(waves);
}

std::optional<Unsettled> unsettled_of(const RecordJson& record) {
  const RecordJson blocks = at(record, {"time", "telemetry", "blocks"});
  const auto marked = number_at(record, {"time", "telemetry", "marked_blocks"});
  if (!blocks.is_array() || blocks.empty() || !marked) return std::nullopt;
  Unsettled off{.marked = *marked, .all = static_cast<double>(blocks.size()), .what = "blocks"};
  const RecordJson samples = at(record, {"time", "samples_s"});
  const auto at_work = number_at(record, {"time", "at_work"});
  if (at_work && *at_work < kLeastAtWork) off.at_work = at_work;
  const bool is_of_clock = 4.0 * off.marked > off.all;
  if (!is_settled_run(record) || is_of_clock || !samples.is_array() || samples.empty()) return off;
  off.marked = static_cast<double>(turns_off(samples));
  off.all = static_cast<double>(samples.size());
  off.what = "turns";
  return off;
}

std::optional<SharedConflicts> shared_conflicts(const RecordJson& record) {
  const auto wavefronts = number_at(record, {"counters", "shared_wavefronts"});
  const auto loads = number_at(record, {"counters", "shared_load_conflicts"});
  const auto stores = number_at(record, {"counters", "shared_store_conflicts"});
  if (!wavefronts || !loads || !stores) return std::nullopt;
  return SharedConflicts{.wavefronts = *wavefronts, .loads = *loads, .stores = *stores};
}

RecordJson main_entry(const RecordJson& record) {
  const std::vector<RecordJson> entries = compiled_entries(record);
  const RecordJson kernel = main_kernel(record);
  if (kernel.is_null()) return entries.size() == 1 ? entries.front() : RecordJson();
  const auto entry = std::ranges::find_if(
      entries, [&](const RecordJson& one) { return at(one, {"name"}) == at(kernel, {"symbol"}); });
  return entry == entries.end() ? RecordJson() : *entry;
}

Waves waves_of(const RecordJson& record, const TileFacts& facts) {
  Waves waves{
      .multiprocessors = number_at(record, {"device", "cuda", "multiprocessors"}).value_or(0.0),
      .equal = has_equal_items(record)};
  if (!(waves.multiprocessors > 0.0)) {
    waves.reason = "only a GPU's grid is known";
    return waves;
  }
  const RecordJson kernel = main_kernel(record);
  if (kernel.is_null()) {
    waves.items = facts.own.items;
    waves.reason = waves.items ? "which blocks ran was not seen" : "its work items are not known";
  } else {
    waves.items = grid_blocks(kernel);
    waves.seen = true;
  }
  const auto blocks = number_at(main_entry(record), {"blocks_per_multiprocessor"});
  if (blocks && *blocks > 0.0) waves.places = *blocks * waves.multiprocessors;
  // As many blocks as there are places take one item after the other.
  const bool may_persist = waves.items && waves.places && *waves.items == *waves.places;
  if (may_persist && facts.own.items) waves.items = facts.own.items;
  if (may_persist && !facts.own.items) {
    waves.items.reset();
    waves.reason = "the items of its blocks are not known";
  }
  if (waves.items && !waves.places) waves.reason = "how many blocks fit is not known";
  return waves;
}

std::optional<double> explained_seconds(const RecordJson& record, const TileFacts& facts,
                                        const Peaks* peaks) {
  const Point point = point_of(record, facts, peaks);
  return point.seconds ? point.seconds : paper_seconds(busy_parts(point));
}

std::vector<LimiterShare> find_limiters(const RecordJson& record, const TileFacts& facts,
                                        const Peaks* peaks) {
  const Point point = point_of(record, facts, peaks);
  const std::vector<Busy> parts = busy_parts(point);
  std::vector<LimiterShare> findings =
      point.seconds ? as_measured(point, parts) : on_paper(point, parts);
  std::ranges::stable_sort(findings, comes_before);
  return findings;
}

}  // namespace attnlab
