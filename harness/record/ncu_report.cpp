#include "harness/record/ncu_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include "harness/base/csv.h"
#include "harness/base/errors.h"
#include "kernels/api/counter_metrics.h"

namespace attnlab {
namespace {

constexpr const char* kRegisters = "launch__registers_per_thread";
constexpr const char* kOccupancy = "sm__warps_active.avg.pct_of_peak_sustained_active";
constexpr std::string_view kStallBegin = "smsp__average_warps_issue_stalled_";
constexpr std::string_view kStallEnd = "_per_issue_active.ratio";
constexpr const char* kRemedy =
    "attnlab profile asks ncu for it, and exports by --page raw --csv --print-units base";

bool may_be_missing(const CounterMetric& metric) {
  using C = HardwareCounts;
  return metric.field == &C::wgmma_flops || metric.field == &C::mma_sync_flops;
}

// Lists those of the counters' metrics that a report is read for.
std::vector<CounterMetric> wanted_counts(Dtype dtype) {
  using C = HardwareCounts;
  constexpr std::optional<double> C::*kWanted[] = {
      &C::dram_read_bytes, &C::dram_write_bytes, &C::sm_read_bytes,
      &C::l2_read_bytes,   &C::l2_write_bytes,   &C::tensor_active_cycles,
      &C::active_cycles,   &C::wgmma_flops,      &C::mma_sync_flops};
  std::vector<CounterMetric> metrics = counter_metrics(dtype, true);
  std::erase_if(metrics, [&](const CounterMetric& metric) {
    return std::ranges::find(kWanted, metric.field) == std::end(kWanted);
  });
  return metrics;
}

// Returns whether commas, if there are some, stand between groups of three digits only.
bool is_well_grouped(std::string_view whole) {
  if (whole.find(',') == std::string_view::npos) return true;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const bool is_separator = whole[whole.size() - 1 - i] == ',';
    if (is_separator != (i % 4 == 3)) return false;
  }
  return whole.front() != ',';
}

// Reads a number as ncu prints it: "1,234.5" has its thousands apart.
std::optional<double> parse_value(const std::string& text) {
  std::string whole = text.substr(0, text.find('.'));
  if (!is_well_grouped(whole)) return std::nullopt;
  const std::string rest = text.substr(whole.size());
  std::erase(whole, ',');
  const std::string digits = whole + rest;
  double value = 0.0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  constexpr double kMost = 1e21;  // beyond what counters of 64 bits hold
  const bool is_number = error == std::errc() && stop == end && value >= 0.0 && value <= kMost;
  return is_number ? std::optional(value) : std::nullopt;
}

// Returns whether a unit has a magnitude: Mbyte, Kinst. Rates and times have other ones, which are
// not read.
bool is_scaled(const std::string& unit) {
  return unit.size() > 1 && std::string_view("KMGT").find(unit[0]) != std::string_view::npos &&
         unit[1] >= 'a' && unit[1] <= 'z';
}

// Returns the unit that a metric must have; "" allows any that has no magnitude.
std::string unit_of(std::string_view metric) {
  if (metric.find("pct_of_peak") != std::string_view::npos) return "%";
  if (metric.find("_sectors") != std::string_view::npos) return "sector";
  return metric.find("__bytes_") == std::string_view::npos ? "" : "byte";
}

// Lines of ncu ("==PROF== ...") and of the program that it ran may stand before the page and behind
// it.
std::string page_of(const std::string& text, const std::string& where) {
  constexpr std::string_view kHead = "\"ID\",";
  const std::size_t behind_line = text.find(fmt::format("\n{}", kHead));
  if (!text.starts_with(kHead) && behind_line == std::string::npos) {
    throw UsageError(
        fmt::format("{}: has no line that begins with \"ID\": it is no raw page of ncu as CSV "
                    "(ncu --import REPORT --page raw --csv --print-units base)",
                    where));
  }
  std::string page = text.starts_with(kHead) ? text : text.substr(behind_line + 1);
  while (true) {
    const std::size_t last = page.rfind("\n==", page.size());
    if (last == std::string::npos) return page;
    const bool is_whole_line = page.find('\n', last + 1) == page.size() - 1;
    if (!is_whole_line) return page;
    page.resize(last + 1);
  }
}

class Page {
 public:
  Page(const std::string& text, const std::string& where)
      : where_(where), rows_(parse_csv(page_of(text, where), where)) {
    if (rows_.size() < 3) {
      throw UsageError(fmt::format(
          "{}: has no launches: either nothing was profiled, or it is half a file", where_));
    }
    for (std::size_t i = 0; i < columns().size(); ++i) {
      if (!places_.emplace(columns()[i], i).second) doubled_.insert(columns()[i]);
    }
    if (!cell(1, "ID").empty()) {
      throw UsageError(fmt::format("{}: its second row has no units", where_));
    }
  }

  // Counts the rows: the heading, the units and one for each launch.
  std::size_t rows() const { return rows_.size(); }
  const CsvRow& columns() const { return rows_[0]; }
  bool has(const std::string& column) const { return places_.contains(column); }

  const std::string& cell(std::size_t row, const std::string& column) const {
    const auto place = places_.find(column);
    if (place == places_.end()) {
      throw UsageError(fmt::format("{}: has no column '{}': {}", where_, column, kRemedy));
    }
    if (doubled_.contains(column)) {
      throw UsageError(fmt::format("{}: has two columns '{}'", where_, column));
    }
    return rows_[row][place->second];
  }

  double number(std::size_t row, const std::string& metric) const {
    const std::string& text = cell(row, metric);
    check_unit(metric);
    const std::optional<double> value = parse_value(text);
    if (!value) refuse(row, metric, fmt::format("'{}' is not a number that can be", text));
    return *value;
  }

  bool is_counted(std::size_t row, const std::string& metric) const {
    return has(metric) && cell(row, metric) != "n/a";
  }

  // Reads "(128, 1, 1)".
  std::array<std::uint32_t, 3> extent(std::size_t row, const std::string& column) const {
    const std::string& text = cell(row, column);
    std::array<std::uint32_t, 3> extent = {};
    const char* at = text.data();
    const char* const end = at + text.size();
    for (std::size_t i = 0; i < extent.size(); ++i) {
      while (at != end && *at == ' ') ++at;
      const bool is_led = at != end && *at == (i == 0 ? '(' : ',');
      if (is_led) ++at;
      while (at != end && *at == ' ') ++at;
      const auto [stop, error] = std::from_chars(at, end, extent[i]);
      if (!is_led || error != std::errc() || extent[i] == 0) refuse_extent(row, column);
      at = stop;
    }
    if (at == end || *at != ')' || at + 1 != end) refuse_extent(row, column);
    return extent;
  }

  [[noreturn]] void refuse(std::size_t row, const std::string& column,
                           const std::string& why) const {
    throw UsageError(fmt::format("{}: launch {}, {}: {}", where_, row - 1, column, why));
  }

 private:
  void check_unit(const std::string& metric) const {
    const std::string& unit = cell(1, metric);
    const std::string wanted = unit_of(metric);
    if (wanted.empty() ? !is_scaled(unit) : unit == wanted) return;
    throw UsageError(fmt::format("{}: {} is in '{}'{}: export it with --print-units base", where_,
                                 metric, unit, wanted.empty() ? "" : ", not in " + wanted));
  }

  [[noreturn]] void refuse_extent(std::size_t row, const std::string& column) const {
    refuse(row, column, fmt::format("'{}' is not of the form (1, 1, 1)", cell(row, column)));
  }

  const std::string& where_;
  std::vector<CsvRow> rows_;
  std::map<std::string, std::size_t> places_;
  std::set<std::string> doubled_;
};

HardwareCounts read_counts(const Page& page, std::size_t row, Dtype dtype) {
  HardwareCounts counts;
  const std::vector<CounterMetric> wanted = wanted_counts(dtype);
  for (const CounterMetric& metric : wanted) {
    std::optional<double>& value = counts.*metric.field;
    if (value || !page.is_counted(row, metric.name)) continue;
    value = page.number(row, metric.name) * metric.factor;
    counts.metrics.push_back(metric.name);
  }
  for (const CounterMetric& metric : wanted) {
    if (counts.*metric.field || may_be_missing(metric)) continue;
    page.refuse(row, metric.name, fmt::format("is not there or n/a: {}", kRemedy));
  }
  return counts;
}

// Reads a cell like 22527  "attnlab:profile:none:none:none:none:ASCII:profile"  "attnlab:v3 ...",
// where a range's name, which may hold colons, stands twice.
std::vector<std::string> read_ranges(const Page& page, std::size_t row) {
  constexpr const char* kColumn =
      "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg";
  constexpr std::string_view kBegin = "\"attnlab:", kMessage = ":ASCII:";
  if (!page.has(kColumn)) return {};
  const std::string& cell = page.cell(row, kColumn);
  std::vector<std::string> names;
  for (std::size_t at = cell.find(kBegin); at != std::string::npos; at = cell.find(kBegin, at)) {
    const std::size_t end = cell.find('"', at + 1);
    const std::size_t message = cell.find(kMessage, at);
    if (end == std::string::npos || message == std::string::npos || message > end) {
      page.refuse(row, kColumn, fmt::format("'{}' does not say which ranges were open", cell));
    }
    const std::size_t name = message + kMessage.size();
    names.push_back(cell.substr(name, end - name));
    at = end;
  }
  return names;
}

// Returns the reason for warps to stall that a column counts; "" of other columns.
std::string stall_reason(const std::string& column) {
  if (!column.starts_with(kStallBegin) || !column.ends_with(kStallEnd)) return "";
  const std::size_t around = kStallBegin.size() + kStallEnd.size();
  if (column.size() <= around) return "";
  std::string reason = column.substr(kStallBegin.size(), column.size() - around);
  const bool is_word =
      std::ranges::all_of(reason, [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
  return is_word && reason.front() != '_' ? reason : "";
}

std::map<std::string, double> read_stalls(const Page& page, std::size_t row) {
  std::map<std::string, double> stalls;
  for (const std::string& column : page.columns()) {
    const std::string reason = stall_reason(column);
    if (reason.empty() || !page.is_counted(row, column)) continue;
    stalls[reason] = page.number(row, column);
  }
  if (stalls.empty()) {
    page.refuse(row, fmt::format("{}*{}", kStallBegin, kStallEnd),
                "are not there or n/a: attnlab profile asks ncu for its section WarpStateStats");
  }
  return stalls;
}

// Reads "9.0" as 90.
int read_capability(const Page& page, std::size_t row) {
  const double number = page.number(row, "CC");
  return static_cast<int>(std::lround(std::min(number, 1000.0) * 10.0));
}

int read_registers(const Page& page, std::size_t row) {
  constexpr double kMost = 255.0;
  const double registers = page.number(row, kRegisters);
  if (!(registers <= kMost) || registers != std::floor(registers)) {
    page.refuse(row, kRegisters, fmt::format("a thread cannot have {} registers", registers));
  }
  return static_cast<int>(registers);
}

}  // namespace

std::vector<std::string> ncu_metrics(Dtype dtype, bool has_wgmma) {
  std::vector<std::string> names;
  std::vector<CounterMetric> wanted = wanted_counts(dtype);
  for (auto metric = wanted.begin(); metric != wanted.end(); ++metric) {
    const bool is_other_name = std::any_of(
        wanted.begin(), metric, [&](const auto& before) { return before.field == metric->field; });
    const bool is_wgmma = metric->field == &HardwareCounts::wgmma_flops;
    if (!is_other_name && (has_wgmma || !is_wgmma)) names.push_back(metric->name);
  }
  names.emplace_back(kOccupancy);
  names.emplace_back(kRegisters);
  return names;
}

std::vector<NcuLaunch> read_ncu_report(const std::string& text, Dtype dtype,
                                       const std::string& where) {
  const Page page(text, where);
  std::vector<NcuLaunch> launches;
  for (std::size_t row = 2; row < page.rows(); ++row) {
    launches.push_back({.kernel = page.cell(row, "Kernel Name"),
                        .ranges = read_ranges(page, row),
                        .grid = page.extent(row, "Grid Size"),
                        .block = page.extent(row, "Block Size"),
                        .compute_capability = read_capability(page, row),
                        .registers = read_registers(page, row),
                        .occupancy_percent = page.number(row, kOccupancy),
                        .stalls = read_stalls(page, row),
                        .counts = read_counts(page, row, dtype)});
  }
  return launches;
}

}  // namespace attnlab
