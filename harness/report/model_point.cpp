// Writes attnlab model's report on one point.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/report/fields.h"
#include "harness/report/model_tables.h"

namespace attnlab {
namespace {

constexpr double kKib = 0x1p10;
constexpr double kMib = 0x1p20;
constexpr double kGib = 0x1p30;
constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kPercent = 0.01;

using Row = std::vector<TextCell>;

// These make a column of text, and a column of numbers.
TextColumn text_column(const char* title) { return {"", title, true}; }
TextColumn number_column(const char* title, const std::string& group = "") {
  return {group, title, false};
}

std::string label_of(const ModelJson& kernel) { return kernel["label"]; }

// Returns two decimals, "-" for null.
std::string factor(const ModelJson& value) {
  return value.is_null() ? "-" : fmt::format("{:.2f}", value.get<double>());
}

ModelSection work_section(const ModelJson& point) {
  const ModelJson& work = point["work"];
  const ModelJson& compulsory = point["compulsory"];
  const bool large = work["score_bytes"].get<double>() >= kGib;
  TextTable table{.columns = {text_column("Work"), number_column("value"), text_column("unit"),
                              text_column("")},
                  .rows = {}};
  const auto add = [&](const char* name, const std::string& value, const char* unit,
                       const std::string& remark) {
    table.rows.push_back({{name}, {value}, {unit}, {remark}});
  };
  add("useful FLOPs", model_number(work["useful_flops"], kGiga), "GFLOP",
      fmt::format("{} for each of {} visible pairs, {} % of all",
                  model_exact(work["useful_flops_per_pair"]), exact(work["visible_pairs"]),
                  model_number(work["visible_share"], kPercent)));
  add("papers' FLOPs", model_number(work["papers_flops"], kGiga), "GFLOP",
      "their convention: half of all pairs for causal");
  add("compulsory bytes", model_number(compulsory["bytes"], kMib), "MiB",
      fmt::format("every tensor once: {} read, {} written",
                  model_number(compulsory["read_bytes"], kMib),
                  model_number(compulsory["write_bytes"], kMib)));
  add("intensity", model_number(compulsory["useful_flops_per_byte"]), "FLOP/B",
      "useful FLOPs / compulsory bytes");
  add("materialized scores", model_number(work["score_bytes"], large ? kGib : kMib),
      large ? "GiB" : "MiB",
      fmt::format("S, or P, written out in {}", point["dtype"].get<std::string>()));
  return {"", table, ""};
}

ModelSection kernel_section(const ModelJson& point) {
  const std::string flops = "FLOPs";
  const std::string bytes = "requested bytes";
  const std::string tiles = "tiles";
  TextTable table{.columns = {text_column("kernel"), number_column("GFLOP", flops),
                              number_column("/useful", flops), number_column("MiB", bytes),
                              number_column("/compulsory", bytes), number_column("FLOP/B", bytes),
                              number_column("MiB", "saved"), number_column("empty", tiles),
                              number_column("partial", tiles), number_column("full", tiles)},
                  .rows = {}};
  Footnotes footnotes;
  for (const ModelJson& kernel : point["kernels"]) {
    if (kernel["status"] != "counted") {
      table.rows.push_back(
          {{label_of(kernel)},
           {footnotes.mark(kernel["status"], kernel["reason"]), table.columns.size() - 1}});
      table.rows.back().resize(table.columns.size());
      continue;
    }
    const ModelJson& requested = kernel["requested"];
    const ModelJson& counts = kernel["tiles"];
    const bool has_tiles = std::any_of(counts.begin(), counts.end(),
                                       [](const ModelJson& value) { return value != 0; });
    const auto count = [&](const char* key) { return has_tiles ? exact(counts[key]) : "-"; };
    table.rows.push_back({{label_of(kernel)},
                          {model_number(kernel["executed_flops"], kGiga)},
                          {factor(kernel["executed_per_useful"])},
                          {model_number(requested["bytes"], kMib)},
                          {factor(kernel["requested_per_compulsory"])},
                          {model_number(requested["useful_flops_per_byte"])},
                          {model_number(kernel["saved_bytes"], kMib)},
                          {count("empty")},
                          {count("partial")},
                          {count("full")}});
  }
  return {
      "Kernels: what their schedules execute and ask of HBM; saved: lse and what else a "
      "backward needs",
      table, footnotes.text()};
}

ModelSection memory_section(const ModelJson& point) {
  TextTable table{.columns = {text_column("MiB")}, .rows = {}};
  for (TextColumn& column : memory_columns()) table.columns.push_back(std::move(column));
  for (const ModelJson& kernel : point["kernels"]) {
    if (kernel["memory"].is_null()) continue;
    Row row = {{label_of(kernel)}};
    for (TextCell& cell : memory_cells(kernel)) row.push_back(std::move(cell));
    table.rows.push_back(std::move(row));
  }
  return {kMemoryTitle, table, wrap(kMemoryNote)};
}

// Makes a table whose columns are the GPUs.
struct GpuTable {
  TextTable table;
  const ModelJson& point;
  const ModelJson& gpus;

  GpuTable(const char* title, const ModelJson& one_point, const ModelJson& all_gpus)
      : point(one_point), gpus(all_gpus) {
    table.columns.push_back(text_column(title));
    for (const ModelJson& gpu : gpus) {
      table.columns.push_back({"", gpu["name"].get<std::string>(), false});
    }
  }
  // Adds a row; `cell` gets the GPU's data and what the point has for it.
  template <class Cell>
  void add(const std::string& label, Cell cell) {
    Row row = {{label}};
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      row.push_back({cell(gpus[i], point["gpus"][i])});
    }
    table.rows.push_back(std::move(row));
  }
};

ModelSection bound_section(const ModelJson& point, const ModelJson& gpus) {
  using J = const ModelJson&;
  const std::string dtype = point["dtype"];
  GpuTable rows("", point, gpus);
  rows.add(fmt::format("{} peak, TFLOP/s", dtype),
           [](J, J on) { return model_exact(on["peak_flops_per_s"], kTera); });
  rows.add("memory, GB/s", [](J gpu, J) { return model_exact(gpu["memory_bytes_per_s"], kGiga); });
  rows.add("ridge, FLOP/B", [](J, J on) { return model_number(on["ridge_flops_per_byte"]); });
  rows.add("useful, compulsory: at least ms", [](J, J on) { return bound_cell(on["compulsory"]); });
  rows.add("  attainable, TFLOP/s", [](J, J on) {
    const ModelJson& bound = on["compulsory"];
    return bound.is_null() ? "-" : model_number(bound["attainable_flops_per_s"], kTera);
  });
  for (std::size_t k = 0; k < point["kernels"].size(); ++k) {
    const ModelJson& kernel = point["kernels"][k];
    if (kernel["status"] != "counted") continue;
    rows.add(label_of(kernel) + ", ms", [k](J, J on) { return bound_cell(on["requested"][k]); });
  }
  return {"Roofline: max(FLOPs / peak, bytes / bandwidth) by data sheet", rows.table,
          wrap("c: compute-bound, m: memory-bound. Kernels: their executed FLOPs and requested "
               "bytes, as if no cache served any of them.")};
}

// Puts as many kernels side by side as fit the page.
std::vector<ModelSection> operand_sections(const ModelJson& point) {
  struct Source {
    std::string label;
    const ModelJson* operands;
  };
  std::vector<Source> sources;
  for (const ModelJson& kernel : point["kernels"]) {
    if (kernel["status"] == "counted") {
      sources.push_back({label_of(kernel), &kernel["requested"]["operands"]});
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, bytes] : point["compulsory"]["operands"].items()) names.push_back(name);
  for (const Source& source : sources) {
    for (const auto& [name, bytes] : source.operands->items()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  const auto make_table = [&](std::size_t first, std::size_t last) {
    std::vector<Source> shown = {{"compulsory", &point["compulsory"]["operands"]}};
    for (std::size_t i = first; i < last; ++i) shown.push_back(sources[i]);
    TextTable table{.columns = {text_column("MiB")}, .rows = {}};
    for (const Source& source : shown) {
      table.columns.push_back(number_column("read", source.label));
      table.columns.push_back(number_column("write", source.label));
    }
    for (const std::string& name : names) {
      Row row = {{name}};
      for (const Source& source : shown) {
        for (const char* direction : {"read_bytes", "write_bytes"}) {
          const ModelJson bytes = at(*source.operands, {name.c_str(), direction});
          row.push_back({bytes.is_null() || bytes == 0 ? "" : model_number(bytes, kMib)});
        }
      }
      table.rows.push_back(std::move(row));
    }
    return table;
  };
  std::vector<ModelSection> sections;
  std::size_t first = 0;
  do {
    std::size_t last = std::min(first + 1, sources.size());
    while (last < sources.size() && width(make_table(first, last + 1)) <= page_width()) {
      ++last;
    }
    sections.push_back({first == 0 ? "Bytes by operand" : "", make_table(first, last), ""});
    first = last;
  } while (first < sources.size());
  return sections;
}

ModelSection phase_section(const ModelJson& point) {
  TextTable table{
      .columns = {text_column("forward"), number_column("queries"), number_column("keys"),
                  number_column("scores a head"), number_column("GFLOP"),
                  number_column("MiB compulsory"), number_column("FLOP/B")},
      .rows = {}};
  Footnotes footnotes;
  for (const char* name : {"prefill", "decode"}) {
    const ModelJson& phase = point[name];
    if (!phase.contains("compulsory")) {
      table.rows.push_back(
          {{name}, {footnotes.mark("none", phase["reason"]), table.columns.size() - 1}});
      table.rows.back().resize(table.columns.size());
      continue;
    }
    table.rows.push_back({{name},
                          {exact(phase["seqlen_q"])},
                          {exact(phase["seqlen_k"])},
                          {exact(phase["scores_of_a_head_and_entry"])},
                          {model_number(phase["useful_flops"], kGiga)},
                          {model_number(phase["compulsory"]["bytes"], kMib)},
                          {model_number(phase["compulsory"]["useful_flops_per_byte"])}});
  }
  return {"Prefill and decode: the whole prompt, and one new query with all its keys", table,
          footnotes.text()};
}

ModelSection tile_section(const ModelJson& point) {
  const std::string bytes = "KiB on chip";
  const std::string tiles = "tiles of a head";
  TextTable table{.columns = {text_column("block")}, .rows = {}};
  for (const char* title : {"Q", "K", "V", "O", "S", "l", "m", "total"}) {
    table.columns.push_back(number_column(title, bytes));
  }
  for (const char* title : {"empty", "partial", "full"}) {
    table.columns.push_back(number_column(title, tiles));
  }
  for (const ModelJson& tile : point["tiles"]) {
    Row row = {{fmt::format("{}x{}", exact(tile["block_m"]), exact(tile["block_n"]))}};
    for (const char* key : {"q_bytes", "k_bytes", "v_bytes", "o_bytes", "s_bytes", "l_bytes",
                            "m_bytes", "total_bytes"}) {
      row.push_back({model_number(tile[key], kKib)});
    }
    for (const char* key : {"empty", "partial", "full"}) {
      const ModelJson count = at(tile, {"tiles_of_a_head", key});
      row.push_back({count.is_null() ? "-" : exact(count)});
    }
    table.rows.push_back(std::move(row));
  }
  const std::string dtype = point["dtype"];
  return {fmt::format("Tile choices, {}in f32; tiles summed over the batch",
                      dtype == "f32" ? "" : "Q, K, V in " + dtype + " and the rest "),
          table, ""};
}

ModelSection gpu_section(const ModelJson& point, const ModelJson& gpus) {
  using J = const ModelJson&;
  GpuTable rows("", point, gpus);
  const auto from_v1 = [](const char* key, double unit) {
    return [key, unit](J, J on) { return model_number(at(on, {"v1", key}), unit); };
  };
  const auto from_gpu = [](const char* key, double unit) {
    return [key, unit](J gpu, J) { return model_exact(gpu[key], unit); };
  };
  rows.add("SMs", from_gpu("sms", 1));
  rows.add("memory, GB", from_gpu("memory_bytes", kGiga));
  rows.add("L2, MiB", from_gpu("l2_bytes", kMib));
  rows.add("shared memory of an SM, KiB", from_gpu("sram_bytes", kKib));
  rows.add("largest square above that fits", [](J, J on) {
    const std::string side = exact(on["largest_square_block"]);
    return side.empty() ? "-" : side + "x" + side;
  });
  rows.add("M, f32 elements of it", [](J, J on) { return exact(at(on, {"v1", "sram_elements"})); });
  rows.add("v1's tile Br x Bc", [](J, J on) {
    const ModelJson& v1 = on["v1"];
    return v1.is_null() ? "-" : exact(v1["block_m"]) + "x" + exact(v1["block_n"]);
  });
  rows.add("  its tiles, KiB", from_v1("total_bytes", kKib));
  rows.add("standard, N d + N^2", from_v1("standard_elements_of_a_head", 1));
  rows.add("flash, N^2 d^2 / M", from_v1("flash_elements_of_a_head", 1));
  rows.add("block-sparse, N d + N^2 d^2 s / M", from_v1("block_sparse_elements_of_a_head", 1));
  std::string note = wrap(
      "Bc = ceil(M / 4d), Br = min(Bc, d): a rule that leaves S out. The last three rows are the "
      "papers' formulas without "
      "constants: HBM accesses of one head in elements, N = seqlen_q = seqlen_k (else -), s the "
      "share of v1's tiles that are not empty.");
  for (const ModelJson& gpu : gpus) {
    note += wrap(fmt::format("{}: {}. {}.", gpu["name"].get<std::string>(),
                             gpu["variant"].get<std::string>(), gpu["source"].get<std::string>()),
                 2);
  }
  return {"GPUs, v1's tile on them, and the papers' formulas", rows.table, note};
}

}  // namespace

std::vector<ModelSection> point_sections(const ModelJson& point, const ModelJson& gpus) {
  std::vector<ModelSection> sections = {work_section(point), kernel_section(point),
                                        memory_section(point)};
  if (!gpus.empty()) sections.push_back(bound_section(point, gpus));
  for (ModelSection& section : operand_sections(point)) sections.push_back(std::move(section));
  sections.push_back(phase_section(point));
  sections.push_back(tile_section(point));
  if (!gpus.empty()) sections.push_back(gpu_section(point, gpus));
  return sections;
}

}  // namespace attnlab
