// Makes attnlab model's data table, which has every number of the JSON.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/report/fields.h"
#include "harness/report/model_tables.h"

namespace attnlab {
namespace {

// Holds the values of one row by their columns, in order.
using Leaves = std::vector<std::pair<std::string, ModelJson>>;

// These columns lead every table, in this order, and the GPUs' bounds stand behind them.
constexpr const char* kLeading[] = {"id",
                                    "seed",
                                    "kernel",
                                    "backend",
                                    "config",
                                    "status",
                                    "reason",
                                    "visible_pairs",
                                    "useful_flops",
                                    "papers_flops",
                                    "score_bytes",
                                    "lse_bytes",
                                    "compulsory_bytes",
                                    "useful_flops_per_compulsory_byte",
                                    "executed_flops",
                                    "requested_read_bytes",
                                    "requested_write_bytes",
                                    "useful_flops_per_requested_byte",
                                    "saved_bytes",
                                    "tiles_empty",
                                    "tiles_partial",
                                    "tiles_full"};

// Returns the title of a CSV column: the JSON keys, but for two ratios that they name badly.
std::string title_of(const std::string& keys) {
  if (keys == "compulsory_useful_flops_per_byte") return "useful_flops_per_compulsory_byte";
  if (keys == "requested_useful_flops_per_byte") return "useful_flops_per_requested_byte";
  return keys;
}

// Adds all that `value` holds, under the keys that lead to it.
void add(Leaves& leaves, const std::string& keys, const ModelJson& value) {
  if (value.is_null()) return;
  if (!value.is_object()) {
    leaves.emplace_back(title_of(keys), value);
    return;
  }
  const std::string before = keys.empty() ? "" : keys + "_";
  for (const auto& [key, inner] : value.items()) add(leaves, before + key, inner);
}

ModelJson without(ModelJson object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) object.erase(key);
  return object;
}

std::string config_text(const ModelJson& config) {
  std::string text;
  for (const auto& [name, value] : config.items()) {
    text += (text.empty() ? "" : ",") + name + "=" + exact(value);
  }
  return text;
}

void add_kernel(Leaves& leaves, const ModelJson& kernel) {
  add(leaves, "", without(kernel, {"config"}));
  leaves.emplace_back("config", config_text(kernel["config"]));
}

// Adds all of a point but its kernels.
void add_point(Leaves& leaves, const ModelJson& point) {
  add(leaves, "", without(point, {"reason", "work", "kernels", "tiles", "gpus"}));
  add(leaves, "problem_reason", point["reason"]);
  add(leaves, "", point["work"]);
  if (!point.contains("tiles")) return;
  for (const ModelJson& tile : point["tiles"]) {
    const std::string name = "tile_" + exact(tile["block_m"]) + "x" + exact(tile["block_n"]);
    add(leaves, name, without(tile, {"block_m", "block_n"}));
  }
}

// Adds what a GPU offers, and its bounds on a point and on the kernel number `k`.
void add_gpu(Leaves& leaves, const ModelJson& gpu, const ModelJson& on_gpu, std::size_t k) {
  const std::string name = gpu["name"];
  add(leaves, name, without(gpu, {"name"}));
  if (on_gpu.is_null()) return;
  add(leaves, name, without(on_gpu, {"gpu", "compulsory", "requested"}));
  add(leaves, name, on_gpu["compulsory"]);
  add(leaves, name + "_requested", on_gpu["requested"][k]);
}

Leaves leaves_of(const ModelJson& model, const ModelJson& point, std::size_t k) {
  Leaves leaves;
  add_kernel(leaves, point["kernels"][k]);
  add_point(leaves, point);
  add(leaves, "kernels_on", model["kernels_on"]);
  for (std::size_t i = 0; i < model["gpus"].size(); ++i) {
    const bool counted = point.contains("gpus");
    add_gpu(leaves, model["gpus"][i], counted ? point["gpus"][i] : ModelJson(nullptr), k);
  }
  return leaves;
}

}  // namespace

TextTable model_data_table(const ModelJson& model) {
  std::vector<std::string> titles(std::begin(kLeading), std::end(kLeading));
  for (const ModelJson& gpu : model["gpus"]) {
    titles.push_back(gpu["name"].get<std::string>() + "_lower_bound_s");
  }
  std::set<std::string> known(titles.begin(), titles.end());
  std::vector<std::map<std::string, std::string>> rows;
  for (const ModelJson& point : model["points"]) {
    for (std::size_t k = 0; k < point["kernels"].size(); ++k) {
      rows.emplace_back();
      for (const auto& [title, value] : leaves_of(model, point, k)) {
        rows.back()[title] = exact(value);
        if (known.insert(title).second) titles.push_back(title);
      }
    }
  }
  TextTable table;
  for (const std::string& title : titles) table.columns.push_back({.title = title});
  for (auto& row : rows) {
    std::vector<TextCell> cells;
    for (const std::string& title : titles) cells.push_back({row[title]});
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace attnlab
