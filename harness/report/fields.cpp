#include "harness/report/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/suggest.h"
#include "harness/record/record_json.h"
#include "harness/report/field_list.h"

namespace attnlab {
namespace {

// Returns four significant digits without exponent, at most four decimals.
std::string significant(double value) {
  if (value == 0.0) return "0";
  constexpr int kDigits = 4;
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  return fmt::format("{:.{}f}", value, std::clamp(kDigits - 1 - magnitude, 0, kDigits));
}

}  // namespace

const std::vector<Field>& fields() {
  static const std::vector<Field> kFields = [] {
    FieldList list;
    add_problem_fields(list);
    add_kernel_fields(list);
    add_time_fields(list);
    add_telemetry_fields(list);
    add_compile_fields(list);
    add_rate_fields(list);
    add_error_fields(list);
    add_memory_fields(list);
    add_counter_fields(list);
    add_roof_fields(list);
    add_origin_fields(list);
    return list.take();
  }();
  return kFields;
}

const Field& find_field(std::string_view name, std::string_view where) {
  std::vector<std::string> names;
  for (const Field& field : fields()) {
    if (name == field.name) return field;
    names.push_back(field.name);
  }
  throw UsageError(fmt::format("{}: unknown field '{}'{}", where, name, suggestion(name, names)));
}

std::vector<RecordJson> choose(std::vector<RecordJson> records, const Conditions& where) {
  for (const auto& condition : where) {
    const Field& field = find_field(condition.first, "--where");
    std::erase_if(records, [&](const RecordJson& record) {
      return std::ranges::find(condition.second, exact(field.read(record))) ==
             condition.second.end();
    });
    if (records.empty()) {
      throw UsageError(fmt::format("--where {}: no record is left", condition.first));
    }
  }
  return records;
}

const std::vector<FieldHelp>& field_help() {
  static const std::vector<FieldHelp> kHelp = [] {
    std::vector<FieldHelp> help;
    for (const Field& field : fields()) help.push_back({field.name, field.unit, field.summary});
    return help;
  }();
  return kHelp;
}

bool is_speedup(const Field& field) { return std::string_view(field.name) == "speedup"; }

void add_speedups(std::vector<RecordJson>& records, const std::string& base) {
  const Field& cache = find_field("cache", "");
  const auto case_of = [&](const RecordJson& record) {
    const RecordJson any_layout = at(record, {kBestLayoutKey, "point"});
    if (any_layout.is_string()) return exact(any_layout);
    std::string text = cache.read(record).dump() + at(record, {"protocol", "regime"}).dump();
    for (const char* key : {"id", "input_kind", "seed", "backend"}) {
      text += at(record, {key}).dump();
    }
    text += at(record, {"input_file", "fnv1a"}).dump();
    return text + device_key(record);
  };
  const auto median_of = [](const RecordJson& record) { return at(record, {"time", "median_s"}); };
  // Maps each case and config to the base's last record of it.
  std::map<std::string, std::map<std::string, const RecordJson*>> bases;
  for (const RecordJson& record : records) {
    if (at(record, {"kernel"}) != base || !median_of(record).is_number()) continue;
    bases[case_of(record)][at(record, {"config"}).dump()] = &record;
  }
  struct Best {
    RecordJson median, interval, settled;
  };
  std::map<std::string, Best> best_of;
  for (const auto& [name, configs] : bases) {
    const auto fastest = std::ranges::min_element(configs, {}, [&](const auto& config) {
      return median_of(*config.second).template get<double>();
    });
    best_of[name] = {median_of(*fastest->second), read_interval(*fastest->second),
                     at(*fastest->second, {"time", "telemetry", "settled"})};
  }
  for (RecordJson& record : records) {
    const auto best = best_of.find(case_of(record));
    if (best == best_of.end()) continue;
    const RecordJson own = read_interval(record);
    const RecordJson& other = best->second.interval;
    const bool is_known = own.is_number() && other.is_number();
    record[kSpeedupKey] = {{"over", base},
                           {"ratio", quotient(best->second.median, median_of(record))},
                           {"interval", is_known ? std::max(own, other) : RecordJson()},
                           {"base_settled", best->second.settled}};
  }
}

std::string display(const Field& field, const RecordJson& value) {
  if (value.is_null()) return "-";
  if (!value.is_number() || field.format == NumberFormat::plain) return exact(value);
  const double number = value.get<double>();
  switch (field.format) {
    case NumberFormat::significant: return significant(number);
    case NumberFormat::scientific: return fmt::format("{:.1e}", number);
    case NumberFormat::ratio: return fmt::format("{:.2f}", number);
    case NumberFormat::plain: break;
  }
  return exact(value);
}

std::string exact(const RecordJson& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.dump();
}

}  // namespace attnlab
