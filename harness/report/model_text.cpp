// Writes attnlab model's overview of several points; says how numbers and formats look.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/base/text_table.h"
#include "harness/report/fields.h"
#include "harness/report/model_report.h"
#include "harness/report/model_tables.h"

namespace attnlab {
namespace {

constexpr double kMib = 0x1p20;
constexpr double kGiga = 1e9;
constexpr double kMs = 1e-3;

// Returns the axes of the problem (not of the kernel) whose values differ between points. seqlen
// stands for seqlen_q and seqlen_k where every point is square.
std::vector<std::string> varying_axes(const ModelJson& points) {
  const auto value = [](const ModelJson& point, const std::string& axis) {
    return point["kernels"][0]["axes"][axis].get<std::string>();
  };
  const bool all_square = std::all_of(points.begin(), points.end(), [&](const ModelJson& point) {
    return !value(point, "seqlen").empty();
  });
  std::vector<std::string> names;
  for (const auto& [name, first] : points[0]["kernels"][0]["axes"].items()) {
    if (name == "kernel") break;  // what follows tells kernels apart
    if (name == "seqlen" ? !all_square : name.starts_with("seqlen_") && all_square) continue;
    const bool varies =
        std::any_of(points.begin(), points.end(), [&, &axis = name](const ModelJson& point) {
          return value(point, axis) != value(points[0], axis);
        });
    if (varies) names.push_back(name);
  }
  return names;
}

std::vector<TextCell> axis_cells(const ModelJson& point, const std::vector<std::string>& axes) {
  std::vector<TextCell> cells;
  for (const std::string& axis : axes) {
    cells.push_back({point["kernels"][0]["axes"][axis].get<std::string>()});
  }
  return cells;
}

std::vector<TextColumn> axis_columns(const std::vector<std::string>& axes) {
  std::vector<TextColumn> columns;
  for (const std::string& axis : axes) {
    const bool is_text = axis == "pass" || axis == "dtype" || axis == "layout" || axis == "mask";
    columns.push_back({"", axis, is_text, true});
  }
  return columns;
}

ModelSection main_section(const ModelJson& points, const std::vector<std::string>& axes) {
  TextTable table{.columns = axis_columns(axes), .rows = {}};
  table.columns.push_back({"useful", "GFLOP", false});
  table.columns.push_back({"compulsory", "MiB", false});
  table.columns.push_back({"", "kernel", true, true});
  const std::size_t first_of_kernel = table.columns.size();
  table.columns.push_back({"executed", "GFLOP", false});
  table.columns.push_back({"requested", "MiB", false});
  table.columns.push_back({"saved", "MiB", false});
  table.columns.push_back({"/requested", "FLOP/B", false});
  Footnotes footnotes;
  for (const ModelJson& point : points) {
    for (const ModelJson& kernel : point["kernels"]) {
      std::vector<TextCell> row = axis_cells(point, axes);
      row.push_back({model_number(at(point, {"work", "useful_flops"}), kGiga)});
      row.push_back({model_number(at(point, {"compulsory", "bytes"}), kMib)});
      row.push_back({kernel["label"].get<std::string>()});
      if (kernel["status"] == "counted") {
        const ModelJson& requested = kernel["requested"];
        row.push_back({model_number(kernel["executed_flops"], kGiga)});
        row.push_back({model_number(requested["bytes"], kMib)});
        row.push_back({model_number(kernel["saved_bytes"], kMib)});
        row.push_back({model_number(requested["useful_flops_per_byte"])});
      } else {
        row.push_back({footnotes.mark(kernel["status"], kernel["reason"]),
                       table.columns.size() - first_of_kernel});
        row.resize(table.columns.size());
      }
      table.rows.push_back(std::move(row));
    }
  }
  return {"", table,
          footnotes.text() + wrap("FLOP/B: useful FLOPs for each requested byte; saved: lse and "
                                  "what else a backward needs.")};
}

ModelSection memory_overview(const ModelJson& points, const std::vector<std::string>& axes) {
  TextTable table{.columns = axis_columns(axes), .rows = {}};
  table.columns.push_back({"", "kernel", true});
  for (TextColumn& column : memory_columns()) table.columns.push_back(std::move(column));
  for (const ModelJson& point : points) {
    for (const ModelJson& kernel : point["kernels"]) {
      if (kernel["memory"].is_null()) continue;
      std::vector<TextCell> row = axis_cells(point, axes);
      row.push_back({kernel["label"].get<std::string>()});
      for (TextCell& cell : memory_cells(kernel)) row.push_back(std::move(cell));
      table.rows.push_back(std::move(row));
    }
  }
  return {fmt::format("{}, MiB", kMemoryTitle), table, wrap(kMemoryNote)};
}

ModelSection bound_overview(const ModelJson& model, const std::vector<std::string>& axes) {
  TextTable table{.columns = axis_columns(axes), .rows = {}};
  table.columns.push_back({"", "FLOP/B", false});
  for (const ModelJson& gpu : model["gpus"]) {
    table.columns.push_back({"", gpu["name"].get<std::string>(), false});
  }
  for (const ModelJson& point : model["points"]) {
    std::vector<TextCell> row = axis_cells(point, axes);
    row.push_back({model_number(at(point, {"compulsory", "useful_flops_per_byte"}))});
    for (std::size_t i = 0; i < model["gpus"].size(); ++i) {
      const ModelJson bound =
          point.contains("gpus") ? point["gpus"][i]["compulsory"] : ModelJson(nullptr);
      row.push_back({bound_cell(bound)});
    }
    table.rows.push_back(std::move(row));
  }
  return {"At least, ms: useful FLOPs at the peak or compulsory bytes at the bandwidth", table,
          wrap("c: compute-bound, m: memory-bound; peaks and bandwidths by data sheet. "
               "One problem alone prints a full report.")};
}

std::string kernels_on_text(const ModelJson& kernels_on) {
  if (kernels_on["backend"] != "cuda") {
    return fmt::format("Kernels as on a CPU, {}; as on a GPU with --backend cuda.",
                       count_of(kernels_on["threads"].get<std::size_t>(), "thread"));
  }
  if (!kernels_on["device"].is_null()) {
    return fmt::format("Kernels as on {}.", kernels_on["device"].get<std::string>());
  }
  return "There is no cuda device here: --gpu names one that kernels are counted for.";
}

std::string render_sections(const std::vector<ModelSection>& sections, TableFormat format) {
  const bool markdown = format == TableFormat::markdown;
  std::string text;
  for (const ModelSection& section : sections) {
    text += "\n";
    if (!section.title.empty()) {
      text += markdown ? "### " + section.title + "\n\n" : wrap(section.title);
    }
    text += markdown ? render_markdown(section.table) : render_plain(section.table);
    if (!section.note.empty()) text += (markdown ? "\n" : "") + section.note;
  }
  return text;
}

}  // namespace

std::string model_number(const ModelJson& value, double unit, int most_decimals) {
  if (!value.is_number()) return "-";
  const double number = value.get<double>() / unit;
  if (number == 0.0) return "0";
  const int digits_before_point = static_cast<int>(std::floor(std::log10(std::abs(number)))) + 1;
  return fmt::format("{:.{}f}", number, std::clamp(4 - digits_before_point, 0, most_decimals));
}

std::string model_exact(const ModelJson& value, double unit) {
  return value.is_number() ? fmt::format("{}", value.get<double>() / unit) : "-";
}

std::string bound_cell(const ModelJson& bound) {
  if (bound.is_null()) return "-";
  return model_number(bound["lower_bound_s"], kMs, 5) +
         (bound["bound_by"] == "compute" ? " c" : " m");
}

std::vector<TextColumn> memory_columns() {
  std::vector<TextColumn> columns;
  for (const char* title : {"inputs", "outputs", "saved", "workspace", "peak"}) {
    columns.push_back({"", title, false});
  }
  return columns;
}

std::vector<TextCell> memory_cells(const ModelJson& kernel) {
  std::vector<TextCell> cells;
  for (const auto& [key, bytes] : kernel["memory"].items()) {
    cells.push_back({model_number(bytes, kMib)});
  }
  return cells;
}

std::vector<ModelSection> overview_sections(const ModelJson& model) {
  const std::vector<std::string> axes = varying_axes(model["points"]);
  std::vector<ModelSection> sections = {main_section(model["points"], axes),
                                        memory_overview(model["points"], axes)};
  if (!model["gpus"].empty()) sections.push_back(bound_overview(model, axes));
  return sections;
}

std::string render_model(const ModelJson& model, TableFormat format) {
  if (format == TableFormat::json) return model.dump(1) + "\n";
  if (format == TableFormat::csv) return render_csv(model_data_table(model));
  const ModelJson& points = model["points"];
  const std::string first = points[0]["id"];
  const std::string kernels_on = kernels_on_text(model["kernels_on"]);
  if (points.size() == 1) {
    return fmt::format("{} on paper; nothing was run.\n{}\n", first, kernels_on) +
           render_sections(point_sections(points[0], model["gpus"]), format);
  }
  return wrap(fmt::format("{} on paper; nothing was run. {} The first: {}",
                          count_of(points.size(), "problem"), kernels_on, first)) +
         render_sections(overview_sections(model), format);
}

}  // namespace attnlab
