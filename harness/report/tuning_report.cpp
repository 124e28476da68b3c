#include "harness/report/tuning_report.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "harness/base/text_table.h"
#include "harness/plan/builtin_axes.h"
#include "harness/report/fields.h"
#include "harness/report/table.h"

namespace attnlab {
namespace {

using RecordJson = nlohmann::ordered_json;

double median_of(const RecordJson& record) {
  if (record.at("status") != "ok") return std::numeric_limits<double>::infinity();
  return record.at("time").at("median_s").get<double>();
}

// Returns kernel and tile, and those other values of configs that differ.
std::vector<std::string> telling_fields(const std::vector<RecordJson>& records) {
  std::vector<std::string> fields = {"kernel", "block"};
  for (const SharedAxis& axis : builtin_axes()) {
    const std::string& name = axis.help.name;
    std::set<std::string> values;
    for (const RecordJson& record : records) {
      const RecordJson& config = record.at("config");
      if (config.contains(name)) values.insert(config.at(name).dump());
    }
    if (values.size() > 1) fields.push_back(name);
  }
  return fields;
}

// Returns what tells why one tile is slower than another: what a GPU's compiler made of it; on a
// CPU what its schedule asks of memory, and the fast memory that it wants.
std::vector<std::string> telling_values(const std::vector<RecordJson>& records) {
  const bool on_gpu = std::any_of(records.begin(), records.end(), [](const RecordJson& record) {
    return record.at("backend") == "cuda";
  });
  if (on_gpu) return {"time_ms", "tflops", "registers", "spill_bytes", "shared_kib"};
  return {"time_ms", "gflops", "requested_mib", "workspace_mib"};
}

// Orders records: kernels, and the tiles of each, by their fastest config; the configs of a tile by
// their values.
class TuningOrder {
 public:
  TuningOrder(const std::vector<RecordJson>& records, const std::vector<std::string>& fields) {
    for (const std::string& name : fields) fields_.push_back(&find_field(name, ""));
    for (const RecordJson& record : records) {
      for (const std::string& name : {kernel(record), tile(record)}) {
        const auto [best, is_new] = best_s_.try_emplace(name, median_of(record));
        best->second = std::min(best->second, median_of(record));
      }
    }
  }
  auto operator()(const RecordJson& record) const {
    std::vector<RecordJson> values;
    for (const Field* field : fields_) values.push_back(field->read(record));
    return std::tuple(best_s_.at(kernel(record)), kernel(record), best_s_.at(tile(record)),
                      tile(record), values);
  }

 private:
  static std::string kernel(const RecordJson& record) { return record.at("kernel"); }
  static std::string tile(const RecordJson& record) {
    return kernel(record) + " " + find_field("block", "").read(record).dump();
  }

  std::vector<const Field*> fields_;
  std::map<std::string, double> best_s_;
};

std::string table_of(std::vector<RecordJson> records) {
  TableOptions options;
  options.rows = telling_fields(records);
  options.rows_in_order = true;
  std::ranges::stable_sort(records, {}, TuningOrder(records, options.rows));
  options.cols = {"backend"};
  options.values = telling_values(records);
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
  const Field& block = find_field("block", "");
  const bool any_without_block =
      std::any_of(records.begin(), records.end(),
                  [&](const RecordJson& record) { return block.read(record).is_null(); });
  if (any_without_block) {
    text += "\n" + wrap("Block -: the kernel's own choice, or a kernel without tiles.");
  }
  return text;
}

}  // namespace attnlab
