// Finds the next thing to try, and says it only where a number speaks for it.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/report/explanation.h"

namespace attnlab {
namespace {

constexpr double kMib = 0x1p20, kKib = 0x1p10, kTera = 1e12, kGiga = 1e9, kMega = 1e6,
                 kMilli = 1e-3, kMicro = 1e-6;
constexpr double kPercent = 0.01;

using Path = std::vector<const char*>;

std::string shown(double value) {
  return value >= 1000.0 || value == static_cast<double>(static_cast<long>(value))
             ? fmt::format("{:.0f}", value)
             : fmt::format("{:.3g}", value);
}

Cited cited(const std::string& source, double value, double unit = 1.0) {
  return {.source = source, .value = value, .shown = shown(value / unit)};
}

// Cites the number at a path, which must be there.
Cited of_record(const RecordJson& record, const Path& path, double unit = 1.0) {
  return cited(fmt::format("{}", fmt::join(path, ".")), number_at(record, path).value(), unit);
}

Cited of_tile(const TileFact& tile, const char* what, double value, double unit = 1.0) {
  return cited(fmt::format("{} of {}", what, tile.change), value, unit);
}

Cited of_share(const LimiterShare& finding) {
  return cited(fmt::format("share of {}", to_string(finding.limiter)), finding.share.value_or(0.0),
               kPercent);
}

// Names a tile by both numbers of its size, "128x112", which a reader wants to see. A kernel that
// has no such blocks shows the value that changes.
Cited name_of(const TileFact& tile) {
  const Config& config = tile.config;
  const std::string source = fmt::format("config of {}", tile.change);
  if (!config.contains("block_m") || !config.contains("block_n")) {
    const std::string value = tile.change.substr(tile.change.find(' ') + 1);
    return {.source = source, .value = std::stod(value), .shown = value};
  }
  return {.source = source,
          .value = static_cast<double>(config.get("block_m")),
          .shown = fmt::format("{}x{}", config.get("block_m"), config.get("block_n"))};
}

// Returns the neighbour with the least of `value`, if that is at most `most`.
template <class Value>
const TileFact* least_of(const TileFacts& tiles, Value value, double most) {
  const TileFact* best = nullptr;
  for (const TileFact& tile : tiles.neighbours) {
    const std::optional<double> number = value(tile);
    if (!tile.reason.empty() || !number || !(*number <= most)) continue;
    if (best == nullptr || *number < *value(*best)) best = &tile;
  }
  return best;
}

// Names a tile in place of this one, and the two values that speak for it. `form` takes the three.
Advice take_tile(const TileFact& tile, const char* form, const Cited& theirs, const Cited& ours) {
  const Cited name = name_of(tile);
  return {.sentence = fmt::format(fmt::runtime(form), name.shown, theirs.shown, ours.shown),
          .cited = {name, theirs, ours},
          .command = tile.command};
}

// Says what the limiter's share of the time, in percent, speaks for.
Advice by_share(const LimiterShare& limiter, const char* form) {
  const Cited share = of_share(limiter);
  return {.sentence = fmt::format(fmt::runtime(form), share.shown), .cited = {share}};
}

// Names a neighbour that was measured in the same file, at least 2 % faster.
std::optional<Advice> faster_neighbour(const Explanation& point) {
  constexpr double kSurely = 0.98;
  const TileFact* const tile = least_of(
      point.tiles, [](const TileFact& one) { return one.median_s; },
      kSurely * point.seconds.value_or(0.0));
  if (tile == nullptr) return std::nullopt;
  return take_tile(*tile, "Take the tile {}: the same file has it at {} ms, this one at {}.",
                   of_tile(*tile, "median_s", *tile->median_s, kMilli),
                   cited("time.median_s", *point.seconds, kMilli));
}

// Names the neighbour that asks for the fewest bytes, at least 5 % fewer than this one.
std::optional<Advice> fewer_bytes(const Explanation& point) {
  constexpr double kWorthIt = 0.95;
  const std::optional<double> own = point.tiles.own.bytes;
  const TileFact* const tile = least_of(
      point.tiles, [](const TileFact& one) { return one.bytes; }, kWorthIt * own.value_or(0.0));
  if (tile == nullptr) return std::nullopt;
  return take_tile(
      *tile, "Try the tile {}, whose schedule asks for {} MiB where this one asks for {}.",
      of_tile(*tile, "bytes", *tile->bytes, kMib), of_tile(point.tiles.own, "bytes", *own, kMib));
}

std::optional<Advice> measure_again(const Explanation& point, const RecordJson& record) {
  const std::optional<Unsettled> off = unsettled_of(record);
  if (!off) return std::nullopt;
  if (off->at_work) {
    const Cited share = of_record(record, {"time", "at_work"}, kPercent);
    return Advice{
        .sentence = fmt::format("Compare bursts, or a problem whose launches take longer: these "
                                "were queued too slowly to keep the GPU at work for more than {} "
                                "% of a turn.",
                                share.shown),
        .cited = {share}};
  }
  const Cited marked = cited(fmt::format("{} off", off->what), off->marked);
  const Cited all = cited(off->what, off->all);
  return Advice{.sentence = fmt::format("Measure it again before anything rests on it: {} of {} {} "
                                        "were off.",
                                        marked.shown, all.shown, off->what),
                .cited = {marked, all},
                .command = point.tiles.own.command};
}

std::optional<Advice> save_power(const Explanation& point, const RecordJson& record) {
  const Cited clock = of_record(record, {"time", "telemetry", "mean_clock_hz"}, kMega);
  const Cited most = of_record(record, {"device", "cuda", "max_clock_hz"}, kMega);
  Advice advice{.sentence = fmt::format("At {} of {} MHz joules are time: compare the energy of a "
                                        "call with that of other tiles, and take the least.",
                                        clock.shown, most.shown),
                .cited = {clock, most}};
  if (!point.tiles.own.command.empty()) {
    const bool has_way = !point.tiles.way.empty();
    advice.command = fmt::format("{}{} --energy", point.tiles.own.command,
                                 has_way ? "" : " --protocol regime=settled");
  }
  return advice;
}

std::optional<Advice> fewer_flops(const Explanation& point, const LimiterShare& finding) {
  constexpr double kWorthIt = 0.95;
  const std::optional<double> own = point.tiles.own.flops;
  const TileFact* const tile = least_of(
      point.tiles, [](const TileFact& one) { return one.flops; }, kWorthIt * own.value_or(0.0));
  if (tile == nullptr) {
    return by_share(
        finding, "Keep the tile: products fill {} % of the time, and no neighbour executes fewer.");
  }
  return take_tile(*tile, "Try the tile {}, which executes {} GFLOP where this one executes {}.",
                   of_tile(*tile, "flops", *tile->flops, kGiga),
                   of_tile(point.tiles.own, "flops", *own, kGiga));
}

// Names another kernel that asks for less than half, else a tile that asks for less, else a smaller
// type.
std::optional<Advice> fewer_dram_bytes(const Explanation& point, const LimiterShare& finding) {
  const double moved = point.counts.dram_bytes.value_or(0.0);
  if (!point.tiles.others.empty() && point.tiles.others.front().bytes < 0.5 * moved) {
    const KernelFact& other = point.tiles.others.front();
    const Cited theirs = cited(fmt::format("bytes of {}", other.kernel), other.bytes, kMib);
    const Cited ours = cited("counts.dram_bytes", moved, kMib);
    return Advice{
        .sentence = fmt::format("Try {}, whose schedule asks for {} MiB where this kernel "
                                "moved {}.",
                                other.kernel, theirs.shown, ours.shown),
        .cited = {theirs, ours},
        .command = other.command};
  }
  if (auto advice = fewer_bytes(point)) return advice;
  return by_share(finding,
                  "Move fewer bytes, in a smaller type: the memory is busy for {} % of the time, "
                  "and no tile or kernel asks for less.");
}

std::optional<Advice> fewer_l2_bytes(const Explanation& point, const LimiterShare& finding) {
  if (auto advice = fewer_bytes(point)) return advice;
  return by_share(finding,
                  "Share loads between thread blocks: the L2 is busy for {} % of the time, and no "
                  "neighbouring tile asks for less.");
}

std::optional<Advice> launch_less(const RecordJson& record) {
  const Cited replayed = of_record(record, {"time", "graph", "median_s"}, kMicro);
  const Cited launched = of_record(record, {"time", "median_s"}, kMicro);
  return Advice{
      .sentence = fmt::format("Replay it from a graph, or do more in a launch: {} us that "
                              "way, {} launched one by one.",
                              replayed.shown, launched.shown),
      .cited = {replayed, launched}};
}

// Names the neighbour whose work items leave the fewest multiprocessors idle.
std::optional<Advice> other_items(const Explanation& point, const LimiterShare& finding) {
  const std::optional<double> own = point.waves.items;
  // Numbers of items say nothing where they differ in length.
  if (finding.limiter == Limiter::tail && (!own || !point.waves.equal)) {
    return by_share(finding,
                    "Give the launch's end smaller work items, or more of them: multiprocessors "
                    "idle there for {} % of its time.");
  }
  const double places = point.waves.places && *own > *point.waves.places
                            ? *point.waves.places
                            : point.waves.multiprocessors;
  const Cited ours = cited("work items", *own);
  const Cited multiprocessors = cited("device.cuda.multiprocessors", point.waves.multiprocessors);
  constexpr double kWorthIt = 0.05;
  const auto idle = [&](const TileFact& tile) -> std::optional<double> {
    if (!tile.items) return std::nullopt;
    return idle_share(*tile.items, places);
  };
  const TileFact* const tile = least_of(point.tiles, idle, idle_share(*own, places) - kWorthIt);
  if (tile == nullptr) {
    return Advice{
        .sentence = fmt::format("Give it more at once, in batch or heads: {} work items do "
                                "not fill {} multiprocessors evenly, and no neighbouring "
                                "tile does better.",
                                ours.shown, multiprocessors.shown),
        .cited = {ours, multiprocessors}};
  }
  const Cited theirs = of_tile(*tile, "items", *tile->items);
  const Cited name = name_of(*tile);
  return Advice{.sentence = fmt::format(
                    "Try the tile {}: {} work items on {} multiprocessors, where this one "
                    "has {}.",
                    name.shown, theirs.shown, multiprocessors.shown, ours.shown),
                .cited = {name, theirs, multiprocessors, ours},
                .command = tile->command};
}

std::optional<Advice> spill_less(const Explanation& point) {
  if (!point.counts.spill_bytes || !point.counts.registers) return std::nullopt;
  const Cited spilled = cited("spill_bytes", *point.counts.spill_bytes);
  const Cited registers = cited("registers", *point.counts.registers);
  return Advice{
      .sentence = fmt::format("Shrink the tile, or spread it over more warps: {} bytes do "
                              "not fit into {} registers a thread.",
                              spilled.shown, registers.shown),
      .cited = {spilled, registers}};
}

std::optional<Advice> other_layout(const RecordJson& record) {
  const Cited loads = of_record(record, {"counters", "shared_load_conflicts"});
  const Cited stores = of_record(record, {"counters", "shared_store_conflicts"});
  const Cited all = of_record(record, {"counters", "shared_wavefronts"});
  const bool loads_lead = loads.value >= stores.value;
  return Advice{.sentence = fmt::format("Swizzle what is {} shared memory: of {} wavefronts {} are "
                                        "conflicts of loads and {} of stores.",
                                        loads_lead ? "loaded from" : "stored to", all.shown,
                                        loads.shown, stores.shown),
                .cited = {all, loads, stores}};
}

std::optional<Advice> for_limiter(const Explanation& point, const LimiterShare& finding,
                                  const RecordJson& record) {
  switch (finding.limiter) {
    case Limiter::unsettled: return measure_again(point, record);
    case Limiter::clock: return save_power(point, record);
    case Limiter::tensor: return fewer_flops(point, finding);
    case Limiter::dram: return fewer_dram_bytes(point, finding);
    case Limiter::l2: return fewer_l2_bytes(point, finding);
    case Limiter::exponentials:
      return by_share(finding,
                      "Take some exponentials off their units, by a polynomial: they fill {} % of "
                      "the time.");
    case Limiter::launch: return launch_less(record);
    case Limiter::few_tiles:
    case Limiter::tail: return other_items(point, finding);
    case Limiter::spills: return spill_less(point);
    case Limiter::shared_memory: break;
  }
  return other_layout(record);
}

std::optional<Advice> measure_it(const Explanation& point) {
  if (!point.seconds || point.tiles.own.command.empty()) return std::nullopt;
  const Cited bound = cited("the longest of the bounds", *point.seconds, kMilli);
  return Advice{
      .sentence = fmt::format("Measure it: on paper it takes {} ms at the least.", bound.shown),
      .cited = {bound},
      .command = point.tiles.own.command};
}

// Names a neighbour of which two blocks fit where shared memory allows one of this tile, and
// registers would allow two.
std::optional<Advice> second_block(const Explanation& point) {
  constexpr double kRegisters = 65536.0;  // of a multiprocessor, on every GPU since sm_60
  const Counts& counts = point.counts;
  const std::optional<double> own = point.tiles.own.shared_bytes;
  const double most = point.tiles.most_shared_bytes;
  if (!own || counts.blocks_per_multiprocessor != 1.0 || !counts.registers || !counts.threads) {
    return std::nullopt;
  }
  if (2.0 * *own <= most || 2.0 * *counts.registers * *counts.threads > kRegisters) {
    return std::nullopt;
  }
  const auto room_left = [&](const TileFact& one) -> std::optional<double> {
    const bool does_the_same =
        one.items == point.tiles.own.items && one.flops == point.tiles.own.flops;
    if (!does_the_same || !one.shared_bytes || !(2.0 * *one.shared_bytes <= most))
      return std::nullopt;
    return most - 2.0 * *one.shared_bytes;
  };
  const TileFact* const tile = least_of(point.tiles, room_left, most);
  if (tile == nullptr) return std::nullopt;
  const Cited theirs = of_tile(*tile, "shared_bytes", *tile->shared_bytes, kKib);
  const Cited ours = of_tile(point.tiles.own, "shared_bytes", *own, kKib);
  return Advice{.sentence = fmt::format("Try a second block on each multiprocessor: a neighbour "
                                        "takes {} KiB of shared memory, this one {}.",
                                        theirs.shown, ours.shown),
                .cited = {theirs, ours},
                .command = tile->command};
}

bool is_missing(const Explanation& point, Limiter limiter) {
  return std::ranges::any_of(point.findings, [&](const LimiterShare& finding) {
    return finding.limiter == limiter && !finding.reason.empty();
  });
}

// Says what to count where nothing binds as far as is known.
std::optional<Advice> count_more(const Explanation& point) {
  const std::string& command = point.tiles.own.command;
  const bool on_gpu = point.waves.multiprocessors > 0.0;  // which alone has counters
  if (command.empty() || point.findings.empty() || !on_gpu) return std::nullopt;
  const std::optional<double> requested = point.counts.requested_bytes;
  if (is_missing(point, Limiter::dram) && requested && point.seconds) {
    const Cited rate = cited("requested_bytes over median_s", *requested / *point.seconds, kTera);
    return Advice{.sentence = fmt::format("Count what reaches the memory: the schedule asks for {} "
                                          "TB/s, and caches may serve part of it.",
                                          rate.shown),
                  .cited = {rate},
                  .command = command + " --counters require"};
  }
  if (auto advice = second_block(point)) return advice;
  const LimiterShare& nearest = point.findings.front();
  if (!is_missing(point, Limiter::shared_memory) || !nearest.share) return std::nullopt;
  const Cited share = of_share(nearest);
  return Advice{
      .sentence = fmt::format("Count bank conflicts, too: the largest share so far is {} %, "
                              "of {}.",
                              share.shown, to_string(nearest.limiter)),
      .cited = {share},
      .command = command + " --further-counters"};
}

}  // namespace

std::optional<Advice> next_step(const Explanation& explanation, const RecordJson& record) {
  if (!explanation.is_measured) return measure_it(explanation);
  const LimiterShare* const limiter = explanation.limiter();
  const bool is_settled = limiter == nullptr || limiter->limiter != Limiter::unsettled;
  if (is_settled) {
    if (auto advice = faster_neighbour(explanation)) return advice;
  }
  return limiter == nullptr ? count_more(explanation) : for_limiter(explanation, *limiter, record);
}

}  // namespace attnlab
