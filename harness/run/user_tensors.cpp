#include "harness/run/user_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/shipped.h"
#include "harness/base/text_table.h"
#include "harness/record/repro.h"
#include "harness/tensors/safetensors.h"
#include "reference/dropout.h"

namespace attnlab {
namespace {

// Throws if something stands in the way of a file at `path`.
void check_writable(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& why) {
    throw UsageError(fmt::format("{}: {}", path.string(), why));
  };
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail("is there and is not a regular file: name another");
  }
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, error)) {
    fail(fmt::format("there is no folder {}: create it first", folder.string()));
  }
  if (access(folder.c_str(), W_OK) != 0) {
    fail(fmt::format("the folder {} cannot be written to: name another", folder.string()));
  }
}

// Lists the names in their usual order.
std::vector<std::string> names_of(const TensorViews& views) {
  std::vector<std::string> names;
  for (const char* name : {"q", "k", "v", "o", "lse", "do", "dq", "dk", "dv"}) {
    if (views.contains(name)) names.emplace_back(name);
  }
  for (const auto& [name, view] : views) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

std::vector<std::uint8_t> make_dropout_keep(const Problem& problem) {
  std::vector<std::uint8_t> keep;
  keep.reserve(static_cast<std::size_t>(problem.elements_lse() * problem.seqlen_k));
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t head = 0; head < problem.num_heads_q; ++head) {
      for (std::int64_t row = 0; row < problem.seqlen_q; ++row) {
        for (std::int64_t col = 0; col < problem.seqlen_k; ++col) {
          keep.push_back(reference::element_is_kept(problem, b, head, row, col) ? 1 : 0);
        }
      }
    }
  }
  return keep;
}

}  // namespace

bool is_axis_of_input_file(std::string_view axis) {
  static constexpr std::array<std::string_view, 10> kAxes = {
      "dtype",  "batch",    "heads",    "heads_kv", "head_dim",
      "seqlen", "seqlen_q", "seqlen_k", "lengths",  "input_kind"};
  return std::ranges::find(kAxes, axis) != kAxes.end();
}

bool is_quantised(const Sweep& sweep) { return sweep.axes.at(0).dtype == std::vector{Dtype::e4m3}; }

void use_input_file(Sweep& sweep, const std::filesystem::path& path) {
  Axes& axes = sweep.axes.at(0);
  if (axes.layout.size() != 1) {
    throw UsageError(fmt::format("{}: a file has one layout, but --layout names {}: take one",
                                 path.string(), axes.layout.size()));
  }
  auto input = std::make_shared<const QkvTensors>(load_qkv(path, axes.layout[0]));
  const Problem& problem = input->problem;
  if (!is_quantised(sweep)) axes.dtype = {problem.dtype};
  axes.batch = {problem.batch};
  axes.heads = {problem.num_heads_q};
  axes.heads_kv = {problem.num_heads_kv};
  axes.head_dim = {problem.head_dim};
  axes.lengths = {problem.lengths};
  axes.seqlen = {};
  axes.seqlen_q = {problem.seqlen_q};
  axes.seqlen_k = {problem.seqlen_k};
  axes.input_kind = {InputKind::file};
  sweep.input = std::move(input);
}

std::string describe_input(const std::vector<Case>& cases) {
  const QkvTensors& input = *cases.at(0).input;
  const bool has_backward =
      std::ranges::any_of(cases, [](const Case& work) { return work.problem.pass != Pass::fwd; });
  const char* of_dout = !has_backward        ? ""
                        : input.dout.empty() ? " It has no do: dO is drawn from the seed."
                                             : " dO is its do.";
  const std::string quantised =
      cases.at(0).problem.is_e4m3()
          ? fmt::format(" They are {} and are quantised to e4m3.", to_string(input.problem.dtype))
          : "";
  return wrap(fmt::format("Inputs: q, k, v of {} (FNV-1a {:016x}).{}{}", input.file.path.string(),
                          input.file.hash, quantised, of_dout));
}

TensorSaver::TensorSaver(std::filesystem::path path, SaveDropout dropout)
    : path_(std::move(path)), dropout_(dropout) {
  check_writable(path_);
}

void TensorSaver::save(const Record& record, const Tensors& tensors) try {
  const Problem& problem = record.point.problem;
  const Competitor& competitor = record.point.competitors.at(0);
  TensorViews views = view_tensors(problem, tensors);
  if (dropout_ == SaveDropout::yes) {
    if (dropout_keep_.empty()) dropout_keep_ = make_dropout_keep(problem);
    views["dropout_keep"] = {
        .dtype = "U8",
        .shape = {problem.batch, problem.num_heads_q, problem.seqlen_q, problem.seqlen_k},
        .bytes = std::as_bytes(std::span(dropout_keep_))};
  }
  write_safetensors(path_, views,
                    to_metadata({.problem = problem,
                                 .kernel = competitor.kernel,
                                 .config = competitor.config.to_string()}));
  names_ = names_of(views);
} catch (const std::exception& error) {
  error_ = error.what();
}

std::string TensorSaver::report(const std::vector<nlohmann::ordered_json>& records) const {
  if (!error_.empty()) throw UsageError("--save: " + error_);
  if (records.empty() && names_.empty()) {
    return fmt::format("Saved nothing to {}: this run verified nothing.\n", path_.string());
  }
  // Without a record the run was interrupted between the first verification and the last.
  const auto status = records.empty() ? "" : records[0].at("status").get<std::string>();
  if (names_.empty()) {
    return fmt::format("Saved nothing to {}: the point is {} and was not verified.\n",
                       path_.string(), status);
  }
  const char* verdict = status == to_string(Status::ok)       ? "which passed verification"
                        : status == to_string(Status::failed) ? "which FAILED verification"
                                                              : "as they were verified last";
  return wrap(fmt::format("Saved {} to {}, {}. Check them with NumPy:", fmt::join(names_, ", "),
                          path_.string(), verdict)) +
         fmt::format("  python3 {} {}\n",
                     shell_word(here_or_shipped("scripts/check_saved.py").string()),
                     shell_word(path_.string()));
}

}  // namespace attnlab
