#include "harness/tuning_report.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/axes.h"
#include "harness/fields.h"
#include "harness/table.h"

namespace attnlab {
namespace {

using RecordJson = nlohmann::ordered_json;

double median_of(const RecordJson& record) {
  if (record.at("status") != "ok") return std::numeric_limits<double>::infinity();
  return record.at("time").at("median_s").get<double>();
}

// Kernel and tile, and the other values of configs of which there are several.
std::vector<std::string> telling_fields(const std::vector<RecordJson>& records) {
  std::vector<std::string> fields = {"kernel", "block"};
  for (const ConfigAxisRow& row : config_axis_rows()) {
    const std::string name = row.help.name;
    std::set<std::string> values;
    for (const RecordJson& record : records) {
      const RecordJson& config = record.at("config");
      if (config.contains(name)) values.insert(config.at(name).dump());
    }
    if (values.size() > 1) fields.push_back(name);
  }
  return fields;
}

std::string table_of(std::vector<RecordJson> records) {
  std::stable_sort(records.begin(), records.end(), [](const RecordJson& a, const RecordJson& b) {
    return median_of(a) < median_of(b);
  });
  TableOptions options;
  options.rows = telling_fields(records);
  options.cols = {"backend"};
  options.values = {"time_ms", "tflops", "registers", "spill_bytes", "shared_kib"};
  return render_table(records, options);
}

bool spills(const RecordJson& record) {
  const RecordJson bytes = find_field("spill_bytes", "").read(record);
  return bytes.is_number() && bytes.get<double>() > 0.0;
}

}  // namespace

std::vector<RecordJson> without_spilling(const std::vector<RecordJson>& records) {
  std::vector<RecordJson> others;
  std::copy_if(
      records.begin(), records.end(), std::back_inserter(others),
      [](const RecordJson& record) { return record.at("status") != "invalid" || !spills(record); });
  return others;
}

std::string render_tuning(const std::vector<RecordJson>& records) {
  std::vector<std::pair<std::string, std::vector<RecordJson>>> problems;
  for (const RecordJson& record : records) {
    const std::string problem =
        record.at("problem").dump() + record.at("input_kind").dump() + record.at("seed").dump();
    auto place = std::find_if(problems.begin(), problems.end(),
                              [&](const auto& known) { return known.first == problem; });
    if (place == problems.end()) place = problems.insert(place, {problem, {}});
    place->second.push_back(record);
  }
  std::string text;
  for (const auto& [problem, own] : problems) {
    if (!text.empty()) text += "\n";
    text += table_of(own);
  }
  return text;
}

}  // namespace attnlab
