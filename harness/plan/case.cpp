#include "harness/plan/case.h"

#include <map>

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
    case InputKind::v_one: return "v_one";
    case InputKind::v_mean_one: return "v_mean_one";
    case InputKind::sink: return "sink";
    case InputKind::file: return "file";
  }
  return "?";
}

std::vector<CaseGroup> group_layouts(const std::vector<Case>& cases) {
  std::vector<CaseGroup> groups;
  std::map<std::string, std::size_t> places;
  for (const Case& work : cases) {
    Problem any_layout = work.problem;
    const bool stays_alone = any_layout.layout == Layout::packed || work.input != nullptr;
    if (!stays_alone) any_layout.layout = Layout::bshd;
    const std::string key = any_layout.id() + " " + to_string(work.input_kind) + " " +
                            std::to_string(work.seed) + (work.input != nullptr ? " file" : "");
    const auto [place, is_new] = places.emplace(key, groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(work);
  }
  return groups;
}

reference::Products products_of(const Problem& problem, const Implementation* kernel,
                                const Config& config) {
  const ConfigAxis* const axis =
      kernel == nullptr ? nullptr : find_axis(*kernel, AxisRole::tf32_products);
  const bool tf32 = axis != nullptr && config.get(axis->name) != 0;
  if (tf32 && problem.dtype == Dtype::f32) return reference::Products::tf32;
  if (!problem.is_e4m3() || kernel == nullptr) return reference::Products::storage;
  const ConfigAxis* const promotes = find_axis(*kernel, AxisRole::promotes);
  return promotes == nullptr || config.get(promotes->name) != 0 ? reference::Products::storage
                                                                : reference::Products::unpromoted;
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
