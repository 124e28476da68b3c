// Writes the cost model of a list of cases as JSON: every number of attnlab model.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/plan/accounting.h"
#include "harness/plan/model.h"
#include "harness/report/model_kernels.h"
#include "harness/report/model_report.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json gpu_json(const Gpu& gpu) {
  return {{"name", gpu.name},
          {"variant", gpu.variant},
          {"f16_flops_per_s", optional_json(gpu.flops_per_s.f16)},
          {"bf16_flops_per_s", optional_json(gpu.flops_per_s.bf16)},
          {"f32_flops_per_s", optional_json(gpu.flops_per_s.f32)},
          {"memory_bytes_per_s", optional_json(gpu.memory.bytes_per_s)},
          {"memory_bytes", optional_json(gpu.memory.bytes)},
          {"sms", optional_json(gpu.chip.sms)},
          {"l2_bytes", optional_json(gpu.chip.l2_bytes)},
          {"sram_bytes", optional_json(gpu.chip.sram_bytes)},
          {"source", gpu.source}};
}

Json bound_json(const Gpu& gpu, Dtype dtype, const Json& flops, const Json& bytes,
                const Json& useful_flops) {
  if (flops.is_null() || bytes.is_null()) return nullptr;
  const auto bound = roofline(gpu, dtype, flops.get<double>(), bytes.get<double>());
  if (!bound) return nullptr;
  return {{"bound_by", to_string(bound->limit)},
          {"lower_bound_s", bound->seconds},
          {"attainable_flops_per_s", ratio(useful_flops.get<double>(), bound->seconds)}};
}

// ---- Parts of a point ----

Json work_json(const Problem& problem) {
  const std::int64_t pairs = score_elements(problem);
  const std::int64_t visible = visible_pairs(problem);
  return {{"pairs", pairs},
          {"visible_pairs", visible},
          {"visible_share", ratio(static_cast<double>(visible), static_cast<double>(pairs))},
          {"useful_flops", useful_flops(problem)},
          {"useful_flops_per_pair",
           ratio(static_cast<double>(useful_flops(problem)), static_cast<double>(visible))},
          {"papers_flops", paper_flops(problem)},
          {"score_bytes", score_bytes(problem)},
          {"lse_bytes", lse_bytes(problem)}};
}

Json tile_json(const Problem& problem, const Tiling& tiling) {
  const TileBytes bytes = tile_bytes(tiling, problem.head_dim, problem.dtype);
  const auto counts = count_tiles(problem, tiling);
  return {{"block_m", tiling.block_m},
          {"block_n", tiling.block_n},
          {"q_bytes", bytes.q},
          {"k_bytes", bytes.k},
          {"v_bytes", bytes.v},
          {"o_bytes", bytes.o},
          {"s_bytes", bytes.s},
          {"l_bytes", bytes.l},
          {"m_bytes", bytes.m},
          {"total_bytes", bytes.total()},
          {"tiles_of_a_head", counts ? counts_json(*counts) : Json(nullptr)}};
}

constexpr i64 kSquares[] = {16, 32, 64, 128};

// Returns the tiles to count: kSquares, and those that the kernels use.
std::vector<Tiling> tile_choices(const Case& work) {
  std::vector<Tiling> choices;
  const auto add = [&](i64 block_m, i64 block_n) {
    const Tiling tiling = {.block_m = static_cast<i32>(block_m),
                           .block_n = static_cast<i32>(block_n)};
    const bool is_new = std::find(choices.begin(), choices.end(), tiling) == choices.end();
    if (is_new) choices.push_back(tiling);
  };
  for (const i64 size : kSquares) add(size, size);
  for (const Competitor& competitor : work.competitors) {
    const Config& config = competitor.config;
    if (!config.contains("block_m") || !config.contains("block_n")) continue;
    if (config.get("block_m") > 0 && config.get("block_n") > 0) {
      add(config.get("block_m"), config.get("block_n"));
    }
  }
  return choices;
}

// Describes one of the two phases of inference.
Json phase_json(const Problem& problem) {
  std::string reason = invalid(problem);
  if (reason.empty()) reason = uncountable(problem);
  if (!reason.empty()) return {{"reason", reason}};
  Json phase = work_json(problem);
  phase["reason"] = "";
  phase["seqlen_q"] = problem.seqlen_q;
  phase["seqlen_k"] = problem.seqlen_k;
  phase["scores_of_a_head_and_entry"] = problem.seqlen_q * problem.seqlen_k;
  phase["compulsory"] = traffic_json(compulsory_traffic(problem), useful_flops(problem));
  return phase;
}

Json v1_json(const Problem& problem, std::int64_t sram_elements) {
  Json v1 = tile_json(problem, v1_tiling(sram_elements, problem.head_dim));
  v1["sram_elements"] = sram_elements;
  const Json& tiles = v1["tiles_of_a_head"];
  if (problem.seqlen_q != problem.seqlen_k || tiles.is_null()) return v1;
  const auto visited = tiles["partial"].get<double>() + tiles["full"].get<double>();
  const double share = visited / std::max(1.0, visited + tiles["empty"].get<double>());
  const HbmFormulas formulas =
      hbm_formulas(problem.seqlen_k, problem.head_dim, sram_elements, share);
  v1["block_share"] = share;
  v1["standard_elements_of_a_head"] = formulas.standard;
  v1["flash_elements_of_a_head"] = formulas.flash;
  v1["block_sparse_elements_of_a_head"] = formulas.block_sparse;
  return v1;
}

// Returns the side of the largest square whose tiles an SM holds; null if it holds none.
Json largest_square(const Problem& problem, std::int64_t sram_bytes) {
  Json largest = nullptr;
  for (const i64 size : kSquares) {
    const Tiling tiling = {.block_m = static_cast<i32>(size), .block_n = static_cast<i32>(size)};
    if (tile_bytes(tiling, problem.head_dim, problem.dtype).total() <= sram_bytes) largest = size;
  }
  return largest;
}

Json on_gpu_json(const Problem& problem, const Json& point, const Gpu& gpu) {
  constexpr std::int64_t kElementBytes = sizeof(float);  // v1 keeps its tiles in fp32
  const Json& useful = point["work"]["useful_flops"];
  const auto bound = [&](const Json& flops, const Json& bytes) {
    return bound_json(gpu, problem.dtype, flops, bytes, useful);
  };
  Json on_gpu = {{"gpu", gpu.name},
                 {"peak_flops_per_s", optional_json(peak_flops_per_s(gpu, problem.dtype))},
                 {"ridge_flops_per_byte", optional_json(ridge_flops_per_byte(gpu, problem.dtype))},
                 {"compulsory", bound(useful, point["compulsory"]["bytes"])},
                 {"requested", Json::array()},
                 {"largest_square_block", nullptr},
                 {"v1", nullptr}};
  for (const Json& kernel : point["kernels"]) {
    const bool counted = kernel["requested"].is_object();
    on_gpu["requested"].push_back(
        counted ? bound(kernel["executed_flops"], kernel["requested"]["bytes"]) : Json(nullptr));
  }
  if (gpu.chip.sram_bytes) {
    on_gpu["largest_square_block"] = largest_square(problem, *gpu.chip.sram_bytes);
    on_gpu["v1"] = v1_json(problem, *gpu.chip.sram_bytes / kElementBytes);
  }
  return on_gpu;
}

Json point_json(const Case& work, const Device& device, const std::vector<const Gpu*>& gpus) {
  const Problem& problem = work.problem;
  const std::string reason = uncountable(problem);
  Json json = {{"id", problem.id()},      {"seed", work.seed}, {"dtype", to_string(problem.dtype)},
               {"reason", reason},        {"work", nullptr},   {"compulsory", nullptr},
               {"kernels", Json::array()}};
  if (reason.empty()) {
    json["work"] = work_json(problem);
    json["compulsory"] = traffic_json(compulsory_traffic(problem), useful_flops(problem));
  }
  for (const Competitor& competitor : work.competitors) {
    json["kernels"].push_back(kernel_json(work, competitor, device, json));
  }
  if (!reason.empty()) return json;
  json["tiles"] = Json::array();
  for (const Tiling& tiling : tile_choices(work)) {
    json["tiles"].push_back(tile_json(problem, tiling));
  }
  json["prefill"] = phase_json(prefill_of(problem));
  json["decode"] = phase_json(decode_step_of(problem));
  json["gpus"] = Json::array();
  for (const Gpu* gpu : gpus) json["gpus"].push_back(on_gpu_json(problem, json, *gpu));
  return json;
}

}  // namespace

Json make_model(const std::vector<Case>& cases, const Device& device,
                const std::vector<const Gpu*>& gpus) {
  const bool on_gpu = device.backend == Backend::cuda;  // one CPU's kernels are every CPU's
  Json model = {{"schema", kModelSchema},
                {"kernels_on",
                 {{"backend", to_string(device.backend)},
                  {"device", on_gpu && !device.name.empty() ? Json(device.name) : Json(nullptr)},
                  {"threads", on_gpu ? Json(nullptr) : Json(device.threads)}}},
                {"gpus", Json::array()},
                {"points", Json::array()}};
  for (const Gpu* gpu : gpus) model["gpus"].push_back(gpu_json(*gpu));
  bool any_counted = false;
  for (const Case& work : cases) {
    model["points"].push_back(point_json(work, device, gpus));
    any_counted |= model["points"].back()["work"].is_object();
  }
  if (!any_counted && !cases.empty()) {
    const Json& first = model["points"].front();
    throw UsageError(fmt::format("{} (in {})", first["reason"].get<std::string>(),
                                 first["id"].get<std::string>()));
  }
  return model;
}

}  // namespace attnlab
