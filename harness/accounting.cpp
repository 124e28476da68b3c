#include "harness/accounting.h"

#include "harness/inputs.h"

namespace attnlab {

namespace {

// Out of `forward`, the cost of a whole pass: backward is 2.5 forwards under both conventions.
std::int64_t of_pass(Pass pass, std::int64_t forward) {
  switch (pass) {
    case Pass::fwd: break;
    case Pass::bwd: return forward / 2 * 5;
    case Pass::fwdbwd: return forward / 2 * 7;
  }
  return forward;
}

}  // namespace

Flops count_flops(const Problem& problem, std::int64_t executed) {
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

std::int64_t compulsory_bytes(const Problem& problem) {
  std::int64_t keys = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) keys += problem.keys(b);
  const std::int64_t elements =
      2 * problem.elements_q() + 2 * keys * problem.num_heads_kv * problem.head_dim;
  return elements * size_bytes(problem.dtype) +
         problem.elements_lse() * static_cast<std::int64_t>(sizeof(float));
}

Memory memory_needed(const Problem& problem, std::uint64_t workspace_bytes) {
  const auto bytes = [](std::int64_t elements, std::int64_t size) {
    return static_cast<std::uint64_t>(elements * size);
  };
  return {.inputs_bytes = Inputs::bytes(problem),
          .outputs_bytes = bytes(problem.elements_q(), size_bytes(problem.dtype)),
          .saved_bytes = bytes(problem.elements_lse(), sizeof(float)),
          .workspace_bytes = workspace_bytes};
}

}  // namespace attnlab
