#include "harness/report/peaks_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text_table.h"
#include "harness/measure/ceiling_limits.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

Json optional(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json ceiling_json(const Ceiling& ceiling, const Device& device) {
  const std::string invalid = impossible_ceiling(ceiling, device);
  const bool has_rates = ceiling.reason.empty() && invalid.empty();
  const bool is_of_hbm = ceiling.id == CeilingId::hbm_copy || ceiling.id == CeilingId::hbm_read;
  const auto rate = [&](const CeilingRate& measured) -> Json {
    if (!has_rates) return nullptr;
    Json json = {{"per_s", measured.per_s},
                 {"clock_hz", measured.clock_hz},
                 {"per_multiprocessor_and_clock", nullptr}};
    if (!is_of_hbm) {  // HBM has a clock of its own
      json["per_multiprocessor_and_clock"] = per_multiprocessor_and_clock(measured, device);
    }
    return json;
  };
  const std::optional<double> datasheet = datasheet_rate(ceiling.id, device);
  Json json = {{"id", to_string(ceiling.id)},
               {"unit", unit_of(ceiling.id)},
               {"burst", rate(ceiling.burst)},
               {"settled", rate(ceiling.settled)},
               {"datasheet_per_s", optional(datasheet)},
               {"settled_percent_of_datasheet", nullptr}};
  if (has_rates && datasheet) {
    json["settled_percent_of_datasheet"] = 100.0 * ceiling.settled.per_s / *datasheet;
  }
  json["how"] = ceiling.how;
  json["reason"] = ceiling.reason;
  json["invalid"] = invalid;
  return json;
}

const Json& find(const Json& ceilings, CeilingId id) {
  static const Json kNone;
  const auto found = std::ranges::find_if(
      ceilings, [&](const Json& ceiling) { return ceiling["id"] == to_string(id); });
  return found == ceilings.end() ? kNone : *found;
}

Json level_json(const char* name, const char* measured_by, std::uint64_t bytes,
                const Json& ceiling) {
  Json json = {{"level", name},
               {"measured_by", measured_by},
               {"bytes", bytes},
               {"settled_bytes_per_s", nullptr},
               {"settled_bytes_per_multiprocessor_and_clock", nullptr},
               {"datasheet_bytes_per_s", nullptr}};
  if (ceiling.is_null()) return json;
  json["datasheet_bytes_per_s"] = ceiling["datasheet_per_s"];
  if (ceiling["settled"].is_null()) return json;
  json["settled_bytes_per_s"] = ceiling["settled"]["per_s"];
  json["settled_bytes_per_multiprocessor_and_clock"] =
      ceiling["settled"]["per_multiprocessor_and_clock"];
  return json;
}

Json memory_json(const Json& ceilings, const Device& device) {
  const auto level = [&](const char* name, CeilingId id, std::uint64_t bytes) {
    return level_json(name, to_string(id), bytes, find(ceilings, id));
  };
  const auto multiprocessors = static_cast<std::uint64_t>(device.multiprocessors);
  return Json::array({level("shared memory", CeilingId::shared_read,
                            multiprocessors * device.shared_memory_per_block_bytes),
                      level("L2", CeilingId::l2_read, device.l2_bytes),
                      level("HBM", CeilingId::hbm_read, device.memory_bytes)});
}

// Returns a number in units of 10^12, or of `unit`; "-" for null.
std::string scaled(const Json& value, double unit, int digits) {
  return value.is_null() ? "-" : fmt::format("{:.{}f}", value.get<double>() / unit, digits);
}

// Returns four significant digits, so that 4.528 and 653.1 stand in one column.
std::string tera(const Json& value) {
  if (value.is_null()) return "-";
  const double number = value.get<double>() / 1e12;
  return fmt::format("{:.{}f}", number, number < 10 ? 3 : number < 100 ? 2 : 1);
}

std::string size_text(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return value >= 0x1p30 ? fmt::format("{:.1f} GiB", value / 0x1p30)
                         : fmt::format("{:.1f} MiB", value / 0x1p20);
}

TextTable ceilings_table(const Json& report, Footnotes& footnotes) {
  TextTable table{.columns = {{.title = "ceiling", .left = true},
                              {.title = "unit", .left = true, .key = true},
                              {.title = "burst"},
                              {.title = "settled"},
                              {.title = "per SM and clk"},
                              {.title = "MHz burst"},
                              {.title = "MHz settled"},
                              {.title = "data sheet"},
                              {.title = "settled %"}}};
  for (const Json& ceiling : report["ceilings"]) {
    const Json& burst = ceiling["burst"];
    const Json& settled = ceiling["settled"];
    const bool has_rates = !settled.is_null();
    const auto of = [&](const Json& rate, const char* key) {
      return has_rates ? rate[key] : Json();
    };
    const auto invalid = ceiling["invalid"].get<std::string>();
    const auto reason = ceiling["reason"].get<std::string>();
    const std::string mark =
        !invalid.empty() ? footnotes.mark("invalid", invalid) : footnotes.mark("-", reason);
    table.rows.push_back({{ceiling["id"].get<std::string>()},
                          {"T" + ceiling["unit"].get<std::string>()},
                          {has_rates ? tera(burst["per_s"]) : mark},
                          {has_rates ? tera(settled["per_s"]) : mark},
                          {scaled(of(settled, "per_multiprocessor_and_clock"), 1.0, 1)},
                          {scaled(of(burst, "clock_hz"), 1e6, 0)},
                          {scaled(of(settled, "clock_hz"), 1e6, 0)},
                          {tera(ceiling["datasheet_per_s"])},
                          {scaled(ceiling["settled_percent_of_datasheet"], 1.0, 1)}});
  }
  return table;
}

TextTable memory_table(const Json& report) {
  TextTable table{.columns = {{.title = "memory", .left = true},
                              {.title = "size"},
                              {.title = "read TB/s"},
                              {.title = "B per SM and clk"},
                              {.title = "data sheet TB/s"}}};
  for (const Json& level : report["memory"]) {
    table.rows.push_back({{level["level"].get<std::string>()},
                          {size_text(level["bytes"].get<std::uint64_t>())},
                          {tera(level["settled_bytes_per_s"])},
                          {scaled(level["settled_bytes_per_multiprocessor_and_clock"], 1.0, 1)},
                          {tera(level["datasheet_bytes_per_s"])}});
  }
  return table;
}

std::string methods(const Json& report) {
  std::string text;
  for (const Json& ceiling : report["ceilings"]) {
    const auto how = ceiling["how"].get<std::string>();
    if (how.empty()) continue;
    text += wrap(fmt::format("{}: {}.", ceiling["id"].get<std::string>(), how), 4);
  }
  return text;
}

std::string heading(const Json& report) {
  const Json& sheet = report["datasheet"];
  return wrap(fmt::format(
      "{}, driver {}, {} multiprocessors, at most {:.0f} MHz; measured {}. Burst: the first 20 ms "
      "after a second of rest; settled: after 1.5 s of the same load. {}",
      report["device"].get<std::string>(), report["driver"].get<std::string>(),
      report["multiprocessors"].get<int>(), report["max_clock_hz"].get<double>() / 1e6,
      report["timestamp"].get<std::string>(),
      sheet.is_null() ? std::string("No row of the data sheets is this GPU.")
                      : fmt::format("Data sheet: {}.", sheet["variant"].get<std::string>())));
}

}  // namespace

Json make_peak_report(const Peaks& peaks, const Device& device) {
  const Gpu* const sheet = datasheet_of(device);
  Json report = to_json(peaks);  // keeps where and when; ceilings are said in another way
  report.erase("ceilings");
  report["schema"] = kPeakReportSchema;
  report["datasheet"] = nullptr;
  report["ceilings"] = Json::array();
  if (sheet != nullptr) {
    report["datasheet"] = {{"variant", sheet->variant}, {"source", sheet->source}};
  }
  for (const Ceiling& ceiling : peaks.ceilings) {
    report["ceilings"].push_back(ceiling_json(ceiling, device));
  }
  report["memory"] = memory_json(report["ceilings"], device);
  return report;
}

std::string render_peaks(const Json& report, TableFormat format) {
  if (format == TableFormat::json) return report.dump(2) + "\n";
  Footnotes footnotes;
  const TextTable ceilings = ceilings_table(report, footnotes);
  if (format == TableFormat::csv) return render_csv(ceilings);
  const auto render = format == TableFormat::markdown ? render_markdown : render_plain;
  return heading(report) + "\n" + render(ceilings) + footnotes.text() + "\n" +
         render(memory_table(report)) + "\n" + methods(report);
}

}  // namespace attnlab
