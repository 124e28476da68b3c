#include "harness/plan/accounting.h"

#include <algorithm>

#include "kernels/api/hash.h"
#include "kernels/api/quantise.h"

namespace attnlab {

namespace {

// Returns the cost of a pass whose forward costs `forward`: both conventions count a backward as
// 2.5 forwards.
std::int64_t of_pass(Pass pass, std::int64_t forward) {
  switch (pass) {
    case Pass::fwd: break;
    case Pass::bwd: return forward / 2 * 5;
    case Pass::fwdbwd: return forward / 2 * 7;
  }
  return forward;
}

}  // namespace

Flops count_flops(const Problem& problem, std::optional<std::int64_t> executed) {
  return {.useful = useful_flops(problem), .executed = executed, .paper = paper_flops(problem)};
}

std::int64_t useful_flops(const Problem& problem) {
  const std::vector<std::uint8_t> pattern = make_block_pattern(problem);
  const BlockPattern blocks = view_block_pattern(problem, pattern.data());
  std::int64_t pairs = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) pairs += problem.visible_pairs(b, blocks);
  return of_pass(problem.pass, 4 * pairs * problem.num_heads_q * problem.head_dim);
}

std::int64_t paper_flops(const Problem& problem) {
  const bool packed = problem.lengths.kind == LengthsKind::packed;
  std::int64_t pairs = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    pairs += packed ? problem.queries(b) * problem.keys(b) : problem.seqlen_q * problem.seqlen_k;
  }
  const std::int64_t factor = problem.mask.causal ? 2 : 4;
  return of_pass(problem.pass, factor * pairs * problem.num_heads_q * problem.head_dim);
}

namespace {

std::int64_t elements_of_scales(const Problem& problem) {
  return elements_scale_q(problem) + elements_scale_k(problem) + elements_scale_v(problem);
}

}  // namespace

std::int64_t compulsory_bytes(const Problem& problem) {
  std::int64_t keys = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) keys += problem.keys(b);
  const std::int64_t existing_k = keys * problem.num_heads_kv * problem.head_dim;
  const bool backward = problem.runs_backward();
  // This counts q and o, with a backward dO and dQ too; and k and v, with a backward dK and dV.
  const std::int64_t elements = (backward ? 4 : 2) * problem.elements_q() + 2 * existing_k +
                                (backward ? 2 : 0) * problem.elements_k();
  const std::int64_t statistics =
      problem.elements_q() / problem.head_dim;  // rows of lse that exist
  if (problem.is_e4m3()) {                      // codes in, f16 out, and scales
    return problem.elements_q() * (size_bytes(Dtype::e4m3) + size_bytes(problem.output_dtype())) +
           2 * existing_k * size_bytes(Dtype::e4m3) +
           (statistics + elements_of_scales(problem)) * static_cast<std::int64_t>(sizeof(float));
  }
  return elements * size_bytes(problem.dtype) +
         statistics * static_cast<std::int64_t>(sizeof(float));
}

std::uint64_t bytes_of_codes(const Problem& problem) {
  if (!problem.is_e4m3()) return 0;
  return static_cast<std::uint64_t>(
      problem.elements_q() + 2 * problem.elements_k() + elements_v_transposed(problem) +
      elements_of_scales(problem) * static_cast<std::int64_t>(sizeof(float)));
}

std::uint64_t bytes_of_inputs(const Problem& problem) {
  const std::int64_t like_q = problem.pass == Pass::fwd ? 1 : 2;  // q, dO
  std::int64_t total = (like_q * problem.elements_q() + 2 * problem.elements_k()) *
                       size_bytes(problem.input_dtype());
  total += static_cast<std::int64_t>(bytes_of_codes(problem));
  constexpr std::int64_t kIndexBytes = sizeof(std::int32_t);
  if (problem.lengths.kind == LengthsKind::padding) total += problem.batch * kIndexBytes;
  if (problem.lengths.kind == LengthsKind::packed) total += 2 * (problem.batch + 1) * kIndexBytes;
  if (const auto& blocks = problem.mask.blocks) {
    total += ceil_div<std::int64_t>(problem.seqlen_q, blocks->block_q) *
             ceil_div<std::int64_t>(problem.seqlen_k, blocks->block_k);
  }
  return static_cast<std::uint64_t>(total);
}

std::uint64_t bytes_read_of_inputs(const Problem& problem) {
  if (!problem.is_e4m3()) return bytes_of_inputs(problem);
  return bytes_of_inputs(problem) - bytes_like_q(problem) - 2 * bytes_like_k(problem) -
         static_cast<std::uint64_t>(elements_v_transposed(problem));
}

std::uint64_t bytes_like_q(const Problem& problem) {
  return static_cast<std::uint64_t>(problem.elements_q() * size_bytes(problem.input_dtype()));
}

std::uint64_t bytes_like_k(const Problem& problem) {
  return static_cast<std::uint64_t>(problem.elements_k() * size_bytes(problem.input_dtype()));
}

std::uint64_t bytes_of_o(const Problem& problem) {
  return static_cast<std::uint64_t>(problem.elements_q() * size_bytes(problem.output_dtype()));
}

std::uint64_t bytes_of_lse(const Problem& problem) {
  return static_cast<std::uint64_t>(problem.elements_lse()) * sizeof(float);
}

Problem forward_of(Problem problem) {
  problem.pass = Pass::fwd;
  return problem;
}

std::uint64_t kernel_saved_bytes(const Problem& problem, const Competitor& competitor) {
  if (problem.pass == Pass::fwd) return 0;
  const Implementation& kernel = *competitor.implementation;
  return kernel.saved_bytes(problem, problem.pass == Pass::bwd
                                         ? forward_config(kernel, competitor.config)
                                         : competitor.config);
}

Memory memory_needed(const Problem& problem, const Competitor& competitor, const Device& device) {
  const std::uint64_t o = bytes_of_o(problem);
  const std::uint64_t gradients = bytes_like_q(problem) + 2 * bytes_like_k(problem);
  Memory memory{
      .inputs_bytes = bytes_of_inputs(problem),
      .saved_bytes = (writes_lse(*competitor.implementation, problem) ? bytes_of_lse(problem) : 0) +
                     kernel_saved_bytes(problem, competitor),
      .workspace_bytes =
          competitor.implementation->workspace_bytes(problem, competitor.config, device)};
  switch (problem.pass) {
    case Pass::fwd: memory.outputs_bytes = o; break;
    case Pass::bwd:
      memory.inputs_bytes += o;
      memory.outputs_bytes = gradients;
      break;
    case Pass::fwdbwd: memory.outputs_bytes = o + gradients; break;
  }
  return memory;
}

std::uint64_t forward_workspace_bytes(const Problem& problem, const Competitor& competitor,
                                      const Device& device) {
  if (problem.runs_forward()) return 0;
  const Implementation& kernel = *competitor.implementation;
  return kernel.workspace_bytes(forward_of(problem), forward_config(kernel, competitor.config),
                                device);
}

Memory most_memory(const Problem& problem, const Competitor& competitor, const Device& device) {
  Memory memory = memory_needed(problem, competitor, device);
  memory.workspace_bytes =
      std::max(memory.workspace_bytes, forward_workspace_bytes(problem, competitor, device));
  memory.peak_bytes =
      memory.inputs_bytes + memory.outputs_bytes + memory.saved_bytes + memory.workspace_bytes;
  return memory;
}

std::uint64_t most_bytes(const Problem& problem, const Competitor& competitor,
                         const Device& device) {
  return *most_memory(problem, competitor, device).peak_bytes;
}

std::uint64_t bytes_of_outputs(const Problem& problem, const Competitor& competitor) {
  if (problem.pass == Pass::bwd) return bytes_of_results(problem);
  const bool has_lse = writes_lse(*competitor.implementation, problem);
  return bytes_of_results(problem) + (has_lse ? bytes_of_lse(problem) : 0) +
         kernel_saved_bytes(problem, competitor);
}

std::uint64_t bytes_of_results(const Problem& problem) {
  const std::uint64_t o = problem.runs_forward() ? bytes_of_o(problem) : 0;
  const std::uint64_t gradients =
      problem.runs_backward() ? bytes_like_q(problem) + 2 * bytes_like_k(problem) : 0;
  return o + gradients;
}

std::uint64_t most_bytes_timed(const Problem& problem, const Competitor& competitor,
                               const Device& device) {
  const Memory memory = memory_needed(problem, competitor, device);
  const std::uint64_t timed = memory.inputs_bytes + memory.outputs_bytes + memory.saved_bytes +
                              memory.workspace_bytes + bytes_of_outputs(problem, competitor);
  return std::max(timed, most_bytes(problem, competitor, device));
}

std::optional<PatternSummary> summarize_pattern(const Problem& problem) {
  const auto& blocks = problem.mask.blocks;
  if (!blocks || !unsupported_pattern(*blocks, problem.seqlen_q, problem.seqlen_k).empty()) {
    return std::nullopt;
  }
  const std::vector<std::uint8_t> pattern = make_block_pattern(problem);
  const auto visible = std::count(pattern.begin(), pattern.end(), std::uint8_t{1});
  return PatternSummary{
      .visible_fraction = static_cast<double>(visible) / static_cast<double>(pattern.size()),
      .hash = fnv1a(pattern.data(), pattern.size())};
}

}  // namespace attnlab
