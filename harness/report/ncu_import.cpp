#include "harness/report/ncu_import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "harness/base/errors.h"
#include "harness/base/text_table.h"
#include "harness/plan/peer_names.h"
#include "harness/record/json_parts.h"
#include "harness/record/ncu_report.h"
#include "harness/record/record_json.h"
#include "harness/record/repro.h"
#include "kernels/api/sha256.h"

namespace attnlab {
namespace {

using Launches = std::span<const NcuLaunch>;
using Counts = std::map<std::string, int>;  // launches of each kernel in one shape

using Extent = std::array<std::uint32_t, 3>;

// Names a kernel in one shape. ncu and CUPTI put blanks into demangled names at other places.
std::string name_of(std::string symbol, const Extent& grid, const Extent& block) {
  std::erase(symbol, ' ');
  return fmt::format("{} {} {}", symbol, grid, block);
}

std::string name_of(const NcuLaunch& launch) {
  return name_of(launch.kernel, launch.grid, launch.block);
}

std::string name_of(const RecordJson& kernel) {
  return name_of(kernel.at("symbol"), kernel.at("grid"), kernel.at("block"));
}

Counts counts_of(Launches launches) {
  Counts counts;
  for (const NcuLaunch& launch : launches) ++counts[name_of(launch)];
  return counts;
}

Counts executed_by(const RecordJson& record) {
  Counts counts;
  for (const RecordJson& kernel : record.at("evidence").at("executed")) {
    counts[name_of(kernel)] += kernel.at("launches").get<int>();
  }
  return counts;
}

std::size_t total(const Counts& counts) {
  std::size_t launches = 0;
  for (const auto& [name, count] : counts) launches += static_cast<std::size_t>(count);
  return launches;
}

std::string words(const Counts& counts) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(fmt::format("{} x {}", count, name));
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string key_of(const RecordJson& record) { return record.at("key"); }

// Returns whether its kernels ran on a GPU in this program: a profiler does not see a peer's.
bool has_launches(const RecordJson& record) {
  return record.at("status") == "ok" && record.at("backend") == "cuda" &&
         !is_peer(record.at("kernel").get<std::string>());
}

void require_evidence(const RecordJson& record, const std::string& file) {
  if (at(record, {"evidence", "executed"}).is_array()) return;
  throw UsageError(
      fmt::format("{}: the record of {} does not say which kernels ran, so nothing tells its "
                  "launches: run it again, where attnlab doctor finds CUPTI and not with "
                  "--counters off",
                  file, key_of(record)));
}

// Adds up all launches. A count that one of them lacks is missing in the sum.
HardwareCounts sum_of(Launches launches) {
  HardwareCounts all = launches.front().counts;
  using C = HardwareCounts;
  for (const NcuLaunch& launch : launches.subspan(1)) {
    for (const auto field : {&C::dram_read_bytes, &C::dram_write_bytes, &C::sm_read_bytes,
                             &C::l2_read_bytes, &C::l2_write_bytes, &C::tensor_active_cycles,
                             &C::active_cycles, &C::wgmma_flops, &C::mma_sync_flops}) {
      all.*field = sum(all.*field, launch.counts.*field);
    }
  }
  return all;
}

class Comparisons {
 public:
  void add(const char* what, const std::optional<double>& ncu, const char* source,
           const std::optional<double>& other, const RecordJson& kernel = nullptr) {
    if (!ncu || !other) return;
    const bool is_same = std::abs(*ncu - *other) <= kNcuTolerance * *other;
    all_.push_back({{"what", what},
                    {"kernel", kernel},
                    {"ncu", number(*ncu)},
                    {"source", source},
                    {"other", number(*other)},
                    {"differs", !is_same}});
  }
  RecordJson take() { return std::move(all_); }

 private:
  RecordJson all_ = RecordJson::array();
};

void compare_bytes(const RecordJson& record, const HardwareCounts& ncu, Comparisons& compared) {
  const auto counted = [&](const char* cache, const char* what) {
    return number_at(record, {"traffic", cache, what});
  };
  compared.add("dram_read_bytes", ncu.dram_read_bytes, "counters", counted("dram", "read_bytes"));
  compared.add("dram_write_bytes", ncu.dram_write_bytes, "counters",
               counted("dram", "write_bytes"));
  compared.add("l2_read_bytes", ncu.l2_read_bytes, "counters", counted("l2", "read_bytes"));
  compared.add("l2_write_bytes", ncu.l2_write_bytes, "counters", counted("l2", "write_bytes"));
  compared.add("sm_read_bytes", ncu.sm_read_bytes, "counters",
               number_at(record, {"counters", "sm_read_bytes"}));
  compared.add("dram_bytes", sum(ncu.dram_read_bytes, ncu.dram_write_bytes), "compulsory",
               number_at(record, {"traffic", "compulsory_bytes"}));
  compared.add("sm_read_bytes", ncu.sm_read_bytes, "schedule",
               number_at(record, {"traffic", "requested_read_bytes"}));
  compared.add("l2_write_bytes", ncu.l2_write_bytes, "schedule",
               number_at(record, {"traffic", "requested_write_bytes"}));
}

// Compares FLOPs, for f32 without TF32 not with the schedule: that takes no tensor core.
void compare_flops(const RecordJson& record, const HardwareCounts& ncu, Comparisons& compared) {
  compared.add("wgmma_flops", ncu.wgmma_flops, "counters",
               number_at(record, {"counters", "wgmma_flops"}));
  compared.add("mma_sync_flops", ncu.mma_sync_flops, "counters",
               number_at(record, {"counters", "mma_sync_flops"}));
  const std::optional<double> all = sum(ncu.wgmma_flops, ncu.mma_sync_flops);
  const bool has_none = record.at("problem").at("dtype") == "f32" && all == 0.0;
  if (has_none) return;
  compared.add("tensor_flops", all, "schedule", number_at(record, {"flops", "executed"}));
}

// Returns what the compiler said of a kernel; nothing where units say several things of that name.
std::optional<double> compiled_registers(const RecordJson& record, const NcuLaunch& launch) {
  std::optional<double> found;
  for (const RecordJson& unit : at(record, {"compile"})) {
    for (const RecordJson& entry : unit.at("entries")) {
      const bool is_it =
          entry.at("name") == launch.kernel && entry.at("threads") == launch.block[0];
      if (!is_it) continue;
      const double registers = entry.at("registers");
      if (found && *found != registers) return std::nullopt;
      found = registers;
    }
  }
  return found;
}

std::optional<double> traced_registers(const RecordJson& record, const NcuLaunch& launch) {
  const std::string name = name_of(launch);
  for (const RecordJson& kernel : record.at("evidence").at("executed")) {
    if (name_of(kernel) == name) return number_at(kernel, {"registers"});
  }
  return std::nullopt;
}

RecordJson kernel_json(const NcuLaunch& launch) {
  return {{"symbol", launch.kernel},
          {"grid", launch.grid},
          {"block", launch.block},
          {"registers", launch.registers},
          {"occupancy_percent", number(launch.occupancy_percent)},
          {"tensor_active_percent", optional_number(tensor_active_percent(launch.counts))},
          {"stalls", launch.stalls}};
}

RecordJson bytes_json(const std::optional<double>& read, const std::optional<double>& written) {
  return {{"read_bytes", optional_number(read)}, {"write_bytes", optional_number(written)}};
}

RecordJson profile_json(const RecordJson& record, Launches launches) {
  const HardwareCounts counts = sum_of(launches);
  Comparisons compared;
  compare_bytes(record, counts, compared);
  compare_flops(record, counts, compared);
  RecordJson kernels = RecordJson::array();
  for (const NcuLaunch& launch : launches) {
    kernels.push_back(kernel_json(launch));
    const auto registers = static_cast<double>(launch.registers);
    compared.add("registers", registers, "trace", traced_registers(record, launch), launch.kernel);
    compared.add("registers", registers, "compiler", compiled_registers(record, launch),
                 launch.kernel);
  }
  return {{"tool", "ncu"},
          {"dram", bytes_json(counts.dram_read_bytes, counts.dram_write_bytes)},
          {"l2", bytes_json(counts.l2_read_bytes, counts.l2_write_bytes)},
          {"sm_read_bytes", optional_number(counts.sm_read_bytes)},
          {"tensor_active_percent", optional_number(tensor_active_percent(counts))},
          {"wgmma_flops", optional_number(counts.wgmma_flops)},
          {"mma_sync_flops", optional_number(counts.mma_sync_flops)},
          {"metrics", counts.metrics},
          {"kernels", kernels},
          {"compared", compared.take()}};
}

void check_device(const RecordJson& record, Launches launches, const std::string& file) {
  const std::optional<double> own = number_at(record, {"device", "cuda", "compute_capability"});
  for (const NcuLaunch& launch : launches) {
    if (own == static_cast<double>(launch.compute_capability)) continue;
    throw UsageError(fmt::format(
        "{}: is of a GPU of compute capability {:.1f}, and the record of {} of {}: profile the "
        "points on the GPU that they ran on",
        file, launch.compute_capability / 10.0, key_of(record), record.at("device").at("name")));
  }
}

// Returns how the key of a launch's record begins, by the ranges that attnlab run --profile opens:
// the problem, "profile", and kernel with config; "" of a launch without them.
std::string key_begin(const NcuLaunch& launch) {
  if (launch.ranges.size() != 3) return "";
  std::string name = launch.ranges[2];
  const std::size_t blank = name.find(' ');
  if (blank == std::string::npos) return "";
  return fmt::format("{}/{}/cuda/{}/", launch.ranges[0], name.substr(0, blank),
                     name.substr(blank + 1));
}

bool may_be_of(const NcuLaunch& launch, const RecordJson& record) {
  return key_of(record).starts_with(key_begin(launch));
}

// Two points of equal launches could be taken for one another, unless ranges tell them apart.
void refuse_twins(Launches own, const RecordJson& record, std::span<const RecordJson> later,
                  const std::string& file) {
  for (const RecordJson& other : later) {
    if (!has_launches(other)) continue;
    require_evidence(other, file);
    const bool is_twin =
        executed_by(other) == executed_by(record) &&
        std::ranges::any_of(own, [&](const auto& launch) { return may_be_of(launch, other); });
    if (!is_twin) continue;
    throw UsageError(
        fmt::format("{}: launches of {} cannot be told from those of {}, which are the same "
                    "kernels in the same shapes: profile and import one point at a time",
                    file, key_of(other), key_of(record)));
  }
}

void check_ranges(const RecordJson& record, Launches own, const std::string& file) {
  for (const NcuLaunch& launch : own) {
    if (may_be_of(launch, record)) continue;
    throw UsageError(fmt::format(
        "{}: a launch of {} is of {}, and the record that comes next of {}: profile the points of "
        "the records, all of them and in their order",
        file, launch.kernel, key_begin(launch), key_of(record)));
  }
}

}  // namespace

std::vector<RecordJson> import_ncu_report(const std::string& text, const std::string& file,
                                          std::vector<RecordJson> records) {
  std::size_t used = 0, launches_there = 0;
  bool has_some = false;
  for (std::size_t i = 0; i < records.size(); ++i) {
    RecordJson& record = records[i];
    if (!has_launches(record)) continue;
    require_evidence(record, file);
    has_some = true;
    const std::vector<NcuLaunch> all = read_ncu_report(text, dtype_of(record), file);
    launches_there = all.size();
    const Counts wanted = executed_by(record);
    const std::size_t count = std::min(total(wanted), all.size() - used);
    const Launches own = Launches(all).subspan(used, count);
    if (counts_of(own) != wanted) {
      throw UsageError(fmt::format(
          "{}: from its launch {} on it has {}, but one launch of {} is {}: profile the points of "
          "the records, all of them and in their order",
          file, used + 1, words(counts_of(own)), key_of(record), words(wanted)));
    }
    check_ranges(record, own, file);
    refuse_twins(own, record, std::span(records).subspan(i + 1), file);
    check_device(record, own, file);
    record["profile"] = profile_json(record, own);
    record["profile"]["report"] = path_from_here(file).string();
    record["profile"]["report_sha256"] = sha256(text);
    used += count;
  }
  if (!has_some) {
    throw UsageError(
        fmt::format("{}: no record is of kernels that ran on a GPU and are right", file));
  }
  if (used < launches_there) {
    throw UsageError(
        fmt::format("{}: its launches beyond the first {} are of no record: profile the points of "
                    "the records alone, each launched once",
                    file, used));
  }
  return records;
}

namespace {

std::string shown(const RecordJson& value, const char* form = "{:.1f}") {
  return value.is_number() ? fmt::format(fmt::runtime(form), value.get<double>()) : "n/a";
}

TextTable comparison_table(const RecordJson& compared) {
  TextTable table = {.columns = {{.title = "what", .left = true, .key = true},
                                 {.title = "ncu"},
                                 {.title = "attnlab"},
                                 {.title = "source", .left = true},
                                 {.title = "ncu/attnlab"},
                                 {.title = "", .left = true}}};
  for (const RecordJson& line : compared) {
    const double ncu = line.at("ncu"), other = line.at("other");
    std::string what = line.at("what");
    if (line.at("kernel").is_string()) {
      what += fmt::format(" of {}", line.at("kernel").get<std::string>());
    }
    table.rows.push_back({{what},
                          {fmt::format("{:.0f}", ncu)},
                          {fmt::format("{:.0f}", other)},
                          {line.at("source")},
                          {other > 0.0 ? fmt::format("{:.3f}", ncu / other) : "n/a"},
                          {line.at("differs").get<bool>() ? "differs" : ""}});
  }
  return table;
}

// Says "long_scoreboard 3.21, wait 1.10": those that hold the most warps.
std::string top_stalls(const RecordJson& stalls) {
  constexpr std::size_t kShown = 3;
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [reason, warps] : stalls.items())
    sorted.emplace_back(-warps.get<double>(), reason);
  std::ranges::sort(sorted);
  sorted.resize(std::min(sorted.size(), kShown));
  std::vector<std::string> texts;
  for (const auto& [warps, reason] : sorted) {
    texts.push_back(fmt::format("{} {:.2f}", reason, -warps));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

TextTable kernel_table(const RecordJson& kernels) {
  TextTable table = {.columns = {{.title = "kernel", .left = true, .key = true},
                                 {.title = "registers"},
                                 {.title = "occupancy %"},
                                 {.title = "tensor % of 400"},
                                 {.title = "stalls, warps an issue", .left = true}}};
  for (const RecordJson& kernel : kernels) {
    table.rows.push_back({{kernel.at("symbol")},
                          {shown(kernel.at("registers"), "{:.0f}")},
                          {shown(kernel.at("occupancy_percent"))},
                          {shown(kernel.at("tensor_active_percent"))},
                          {top_stalls(kernel.at("stalls"))}});
  }
  return table;
}

}  // namespace

std::string render_ncu_import(const std::vector<RecordJson>& records) {
  std::string text;
  for (const RecordJson& record : records) {
    const RecordJson profile = at(record, {"profile"});
    if (!profile.is_object()) continue;
    text += fmt::format("{}{}\n{}\n", wrap(key_of(record)),
                        render_plain(kernel_table(profile.at("kernels"))),
                        render_plain(comparison_table(profile.at("compared"))));
  }
  return text;
}

}  // namespace attnlab
