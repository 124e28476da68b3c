#include "harness/report/model_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/text_table.h"
#include "harness/plan/accounting.h"
#include "harness/plan/axes.h"
#include "harness/plan/expand.h"
#include "harness/report/fields.h"
#include "harness/report/model_tables.h"
#include "harness/testing/sweep_axes.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using AxisTexts = std::vector<std::pair<const char*, const char*>>;

ModelJson model_of(const AxisTexts& axes, const std::string& gpu_names = "A100,T4") {
  Sweep sweep;
  sweep.source = "a.json";
  set_axis(sweep, "kernel", "naive,v2", "kernel");
  for (const auto& [axis, text] : axes) set_axis(sweep, axis, text, axis);
  const Device device = available_devices().back();
  return make_model(expand(sweep, builtin_registry(), device), device,
                    parse_gpus(gpu_names, "--gpu"));
}

const AxisTexts kCausal = {
    {"seqlen", "256"}, {"head_dim", "128"}, {"heads", "1"}, {"mask", "causal"}, {"block", "64x64"}};

const ModelJson& kernel_of(const ModelJson& point, const std::string& name) {
  for (const ModelJson& kernel : point["kernels"]) {
    if (kernel["kernel"] == name) return kernel;
  }
  throw std::runtime_error("no kernel " + name);
}

TEST(ModelReport, KernelsCountTheCausalGridOf4x4) {
  const ModelJson model = model_of(kCausal);
  EXPECT_EQ(model["schema"], kModelSchema);
  const ModelJson& v2 = kernel_of(model["points"][0], "v2");
  EXPECT_EQ(v2["tiles"], (ModelJson{{"empty", 6}, {"partial", 4}, {"full", 6}}));
  EXPECT_EQ(v2["executed_flops"], 10 * 4 * 64 * 64 * 128);
  EXPECT_EQ(v2["label"], "v2 64x64");
  for (const ModelJson& tile : model["points"][0]["tiles"]) {
    if (tile["block_m"] != 64) continue;
    EXPECT_EQ(tile["total_bytes"], 144 * 1024 + 512);
    EXPECT_EQ(tile["tiles_of_a_head"], v2["tiles"]);
  }
}

TEST(ModelReport, RequestsAreTheSchedulesOwn) {
  const ModelJson model = model_of(kCausal);
  const ModelJson& v2 = kernel_of(model["points"][0], "v2");
  constexpr std::int64_t kTile = 64 * 128 * 4;
  EXPECT_EQ(v2["requested"]["operands"]["q"],
            (ModelJson{{"read_bytes", 4 * kTile}, {"write_bytes", 0}}));
  EXPECT_EQ(v2["requested"]["operands"]["k"]["read_bytes"], 10 * kTile);
  EXPECT_EQ(v2["saved_bytes"], 256 * 4 + 256 * 8);  // lse, and a place for maximum and sum
  const ModelJson& naive = kernel_of(model["points"][0], "naive");
  EXPECT_GE(naive["saved_bytes"], 256 * 4 + 256 * 256 * 4);  // P beside it
}

// By hand the bound is 4 * (256 * 257 / 2) * 128 FLOP at 19.5 TFLOP/s against 4 * 128 KiB + 1 KiB
// at 2039 GB/s.
TEST(ModelReport, BoundsByHand) {
  const ModelJson model = model_of(kCausal);
  const ModelJson& a100 = model["points"][0]["gpus"][0]["compulsory"];
  const double flops = 4.0 * 128 * (256 * 257) / 2;
  EXPECT_EQ(a100["bound_by"], "compute");
  EXPECT_DOUBLE_EQ(a100["lower_bound_s"], flops / 19.5e12);
  EXPECT_DOUBLE_EQ(a100["attainable_flops_per_s"], 19.5e12);
  const ModelJson& t4 = model["points"][0]["gpus"][1]["compulsory"];  // ridge 25.3, intensity 32.1
  EXPECT_EQ(t4["bound_by"], "compute");
  const ModelJson half = model_of({{"seqlen", "256"}, {"dtype", "bf16"}})["points"][0];
  EXPECT_TRUE(half["gpus"][1]["compulsory"].is_null());  // a T4 has no bf16 peak
  EXPECT_EQ(half["gpus"][0]["compulsory"]["bound_by"], "memory");
  EXPECT_DOUBLE_EQ(half["gpus"][0]["compulsory"]["lower_bound_s"],
                   half["compulsory"]["bytes"].get<double>() / 2039e9);
}

TEST(ModelReport, PrefillAndDecode) {
  const ModelJson point =
      model_of({{"seqlen", "8k"}, {"dtype", "f16"}, {"heads", "1"}})["points"][0];
  EXPECT_EQ(point["prefill"]["scores_of_a_head_and_entry"], 67'108'864);
  EXPECT_EQ(point["decode"]["scores_of_a_head_and_entry"], 8192);
  // One query does 4 d N FLOPs over 2 N d elements of 2 bytes, and little else.
  EXPECT_NEAR(point["decode"]["compulsory"]["useful_flops_per_byte"].get<double>(), 1.0, 1e-3);
  const ModelJson blocks =
      model_of({{"seqlen", "256"}, {"mask", "blocks:butterfly:64x64"}})["points"][0];
  EXPECT_PRED2(contains, blocks["decode"]["reason"].get<std::string>(), "seqlen_q = seqlen_k");
}

// ---- The text shows nothing that the model does not hold ----

void collect(const ModelJson& json, std::set<std::string>& texts) {
  if (json.is_structured()) {
    for (const ModelJson& item : json) collect(item, texts);
  } else if (json.is_number()) {
    const double value = json.get<double>();
    texts.insert(exact(json));
    for (const double unit : {1.0, 0.01, 1e-3, 0x1p10, 0x1p20, 0x1p30, 1e9, 1e12}) {
      texts.insert(model_number(value, unit));
      texts.insert(model_exact(value, unit));
    }
    texts.insert(model_number(value, 1e-3, 5));
    char two_decimals[64];
    std::snprintf(two_decimals, sizeof two_decimals, "%.2f", value);
    texts.insert(two_decimals);
  }
}

// Returns the numbers of a cell like "0.8796 c", "64x128".
std::vector<std::string> numbers_in(std::string cell) {
  if (cell.ends_with(" c") || cell.ends_with(" m")) cell.resize(cell.size() - 2);
  if (cell.empty() || cell.find_first_not_of("0123456789.x") != std::string::npos) return {};
  const std::size_t cross = cell.find('x');
  if (cross == std::string::npos) return {cell};
  return {cell.substr(0, cross), cell.substr(cross + 1)};
}

void expect_all_in_model(const std::vector<ModelSection>& sections, const ModelJson& model) {
  std::set<std::string> known;
  collect(model, known);
  for (const ModelJson& point : model["points"]) {
    for (const auto& [axis, value] : point["kernels"][0]["axes"].items()) {
      known.insert(value.get<std::string>());
    }
  }
  std::size_t found = 0;
  for (const ModelSection& section : sections) {
    EXPECT_LE(width(render_plain(section.table)), kPageWidth) << render_plain(section.table);
    for (const auto& row : section.table.rows) {
      for (const TextCell& cell : row) {
        for (const std::string& number : numbers_in(cell.text)) {
          ++found;
          EXPECT_TRUE(known.contains(number)) << number << " in " << section.title;
        }
      }
    }
  }
  EXPECT_GT(found, 20u);
}

TEST(ModelReport, EveryNumberOfTheTextIsInTheModel) {
  const std::string all = "A100,H100,H200,T4,L4,RTX3090";
  for (const char* pass : {"fwd", "fwdbwd"}) {
    const ModelJson model = model_of({{"seqlen", "512"}, {"mask", "causal"}, {"pass", pass}}, all);
    expect_all_in_model(point_sections(model["points"][0], model["gpus"]), model);
  }
  const ModelJson many_kernels = model_of(
      {{"seqlen", "512"}, {"block", "16x16,32x32,48x48,64x64,80x80,96x96,112x112,128x128"}}, all);
  expect_all_in_model(point_sections(many_kernels["points"][0], many_kernels["gpus"]),
                      many_kernels);
  const ModelJson several =
      model_of({{"seqlen", "64,512"}, {"mask", "none,causal"}, {"dtype", "f32,f16"}}, all);
  expect_all_in_model(overview_sections(several), several);
}

TEST(ModelReport, ATableHasARowForEachKernelOfEachPoint) {
  const ModelJson model = model_of({{"seqlen", "64,128"}, {"mask", "none,causal"}});
  const auto sections = overview_sections(model);
  ASSERT_EQ(sections.size(), 3u);
  EXPECT_EQ(sections[0].table.rows.size(), 8u);
  EXPECT_EQ(sections[1].table.rows.size(), 8u);
  EXPECT_EQ(sections[2].table.rows.size(), 4u);
  EXPECT_EQ(sections[0].table.columns[0].title, "mask");
  EXPECT_EQ(sections[0].table.columns[1].title, "seqlen");  // not seqlen_q and seqlen_k beside it
  const TextTable data = model_data_table(model);
  EXPECT_EQ(data.rows.size(), 8u);
  EXPECT_EQ(render_model(model, TableFormat::json), model.dump(1) + "\n");
}

// Whatever the JSON has of a point, and so whatever a text shows, is in a row of the table.
TEST(ModelReport, TheDataTableHasEveryNumberOfTheModel) {
  for (const char* pass : {"fwd", "fwdbwd"}) {
    const ModelJson model = model_of(
        {{"kernel", "v2"}, {"seqlen", "64,128"}, {"pass", pass}, {"mask", "causal"}}, "A100,T4");
    const TextTable data = model_data_table(model);
    std::set<std::string> titles;
    for (const TextColumn& column : data.columns) titles.insert(column.title);
    EXPECT_EQ(titles.size(), data.columns.size()) << "a title is there twice";
    ASSERT_EQ(data.rows.size(), model["points"].size());
    for (std::size_t i = 0; i < data.rows.size(); ++i) {
      std::set<std::string> cells;
      for (const TextCell& cell : data.rows[i]) cells.insert(cell.text);
      ModelJson shown = model;
      shown["points"] = model["points"][i];
      for (ModelJson& kernel : shown["points"]["kernels"]) kernel["config"] = nullptr;
      for (ModelJson& tile : shown["points"]["tiles"]) tile["block_m"] = tile["block_n"] = nullptr;
      const ModelJson leaves = shown.flatten();
      for (const auto& [path, value] : leaves.items()) {
        if (!value.is_number()) continue;
        EXPECT_TRUE(cells.contains(exact(value))) << path << " " << value;
      }
    }
  }
}

TEST(ModelReport, MemoryIsWhatADryRunSays) {
  for (const char* pass : {"fwd", "bwd", "fwdbwd"}) {
    Sweep sweep;
    sweep.source = "a.json";
    set_axis(sweep, "kernel", "naive,v1,v2,v3", "kernel");
    set_axis(sweep, "pass", pass, "pass");
    set_axis(sweep, "dtype", "f16", "dtype");
    set_axis(sweep, "seqlen", "300", "seqlen");
    const Device device = available_devices().back();
    const Case work = expand(sweep, builtin_registry(), device).at(0);
    const ModelJson model = make_model({work}, device, {});
    for (std::size_t k = 0; k < work.competitors.size(); ++k) {
      const ModelJson& memory = model["points"][0]["kernels"][k]["memory"];
      const std::uint64_t peak = memory["peak_bytes"];
      EXPECT_EQ(peak, most_bytes(work.problem, work.competitors[k], device));
      std::uint64_t sum = 0;
      for (const char* part : {"inputs_bytes", "outputs_bytes", "saved_bytes", "workspace_bytes"}) {
        EXPECT_GT(memory[part], 0) << part;
        sum += memory[part].get<std::uint64_t>();
      }
      EXPECT_EQ(peak, sum);
    }
  }
}

TEST(ModelReport, WhatCannotBeCountedHasItsReason) {
  const ModelJson cuda = [] {
    Sweep sweep;
    set_axis(sweep, "seqlen", "64", "seqlen");
    const Device device = {.backend = Backend::cuda};
    return make_model(expand(sweep, builtin_registry(), device), device, {});
  }();
  const ModelJson& point = cuda["points"][0];
  EXPECT_TRUE(cuda["kernels_on"]["device"].is_null());
  EXPECT_PRED2(contains, render_model(cuda, TableFormat::table), "no cuda device here: --gpu");
  EXPECT_EQ(point["kernels"][0]["status"], "unsupported");
  EXPECT_TRUE(point["kernels"][0]["memory"].is_null());
  EXPECT_NE(point["kernels"][0]["reason"], "");
  EXPECT_GT(point["work"]["useful_flops"], 0);  // the problem costs what it costs
  const ModelJson one_bad =
      model_of({{"seqlen_q", "64,128"}, {"seqlen_k", "128"}, {"mask", "blocks:butterfly:64x64"}});
  EXPECT_PRED2(contains, one_bad["points"][0]["reason"].get<std::string>(), "seqlen_q = seqlen_k");
  EXPECT_EQ(one_bad["points"][1]["reason"], "");
  EXPECT_PRED2(contains, render_model(one_bad, TableFormat::table), "[1] block pattern");
  const std::string error = usage_error([] {
    model_of({{"seqlen", "64k"}, {"head_dim", "1048576k"}});
  });
  EXPECT_PRED2(contains, error, "lower --seqlen");
  const ModelJson tiny = model_of({{"seqlen", "64k"}, {"block", "3x3"}, {"kernel", "v2"}});
  EXPECT_PRED2(contains, tiny["points"][0]["kernels"][0]["reason"].get<std::string>(), "--block");
}

}  // namespace
}  // namespace attnlab
