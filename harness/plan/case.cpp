#include "harness/plan/case.h"

#include "harness/plan/peer_names.h"

namespace attnlab {

const char* to_string(InputKind kind) {
  switch (kind) {
    case InputKind::normal: return "normal";
    case InputKind::uniform: return "uniform";
    case InputKind::integers: return "integers";
    case InputKind::large_logits: return "large_logits";
    case InputKind::outlier: return "outlier";
    case InputKind::outlier_channel: return "outlier_channel";
    case InputKind::file: return "file";
  }
  return "?";
}

reference::Products products_of(const Problem& problem, const Implementation* kernel,
                                const Config& config) {
  const ConfigAxis* const axis =
      kernel == nullptr ? nullptr : find_axis(*kernel, AxisRole::tf32_products);
  const bool tf32 = axis != nullptr && config.get(axis->name) != 0;
  return tf32 && problem.dtype == Dtype::f32 ? reference::Products::tf32
                                             : reference::Products::storage;
}

bool has_fixed_order(const Implementation& kernel, const Config& config, Pass pass) {
  const ConfigAxis* const axis = find_axis(kernel, AxisRole::fixed_order);
  return pass == Pass::fwd || axis == nullptr || config.get(axis->name) != 0;
}

bool wants_to_run(const Competitor& competitor) {
  return (competitor.implementation != nullptr || is_peer(competitor.kernel)) &&
         competitor.unsupported.empty() && competitor.skipped.empty();
}

}  // namespace attnlab
