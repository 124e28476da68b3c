#include "harness/plan/support.h"

#include <algorithm>
#include <string_view>

#include "harness/plan/axes.h"
#include "harness/plan/expand.h"
#include "harness/plan/sweep.h"

namespace attnlab {
namespace {

constexpr const char* kWhere = "support";

// An axis is probed with one value of every form that it has.
constexpr std::pair<const char*, const char*> kProbes[] = {
    {"pass", "fwd,bwd,fwdbwd"},
    {"dtype", "f32,f16,bf16"},
    {"layout", "bshd,bhsd,packed"},
    {"head_dim", "1,64,80,128,256,512"},
    {"heads_kv", "8,2,1"},       // of 8 heads
    {"seqlen_q", "1,256,1000"},  // of 256 keys
    {"mask",
     "none,causal,window:100:0,padding,causal+padding,blocks:butterfly:64x64,blocks:local:1:64x64,"
     "blocks:strided:1:4:64x64,blocks:longformer:1:1:64x64,blocks:bigbird:1:1:1:64x64,"
     "blocks:random:50:64x64,causal+blocks:butterfly:64x64"},
    {"dropout", "0,0.1"},
};

std::vector<Case> ask(const Sweep& sweep, const Implementation& implementation,
                      const Device& device) {
  Registry registry;
  registry.add(implementation);
  return expand(sweep, registry, device);
}

std::string reason_of(const Case& work) { return work.competitors.front().unsupported; }

AxisSupport probe_axis(Sweep sweep, const AxisGrammar& grammar, const char* values,
                       const Implementation& implementation, const Device& device) {
  grammar.set(sweep.axes.front(), values, kWhere);
  AxisSupport support{.axis = grammar.help.name};
  for (const Case& work : ask(sweep, implementation, device)) {
    const std::string value = grammar.value_of(work, work.competitors.front());
    const std::string reason = reason_of(work);
    if (reason.empty()) {
      support.supported.push_back(value);
      continue;
    }
    auto same = std::find_if(support.unsupported.begin(), support.unsupported.end(),
                             [&](const auto& entry) { return entry.first == reason; });
    if (same == support.unsupported.end()) {
      same = support.unsupported.insert(same, {reason, {}});
    }
    same->second.push_back(value);
  }
  return support;
}

}  // namespace

Support probe_support(const Implementation& implementation, const Device& device) {
  const AxisGrammars grammars{Registry()};  // no probe is of a config's axis
  Sweep base;
  base.source = kWhere;
  grammars.set(base, "kernel", implementation.name, kWhere);
  grammars.set(base, "seqlen", "256", kWhere);
  Sweep types = base;
  for (const char* axis : {"pass", "dtype"}) {
    const auto probe = std::find_if(std::begin(kProbes), std::end(kProbes), [&](const auto& entry) {
      return std::string_view(entry.first) == axis;
    });
    grammars.set(types, axis, probe->second, kWhere);
  }
  const std::vector<Case> cases = ask(types, implementation, device);
  const auto works = std::find_if(cases.begin(), cases.end(),
                                  [](const Case& work) { return reason_of(work).empty(); });
  Support support;
  if (works == cases.end()) {
    support.reason = reason_of(cases.front());
    return support;
  }
  base.axes.front().pass = {works->problem.pass};
  base.axes.front().dtype = {works->problem.dtype};
  for (const auto& [axis, values] : kProbes) {
    support.axes.push_back(
        probe_axis(base, grammars.find(axis, kWhere), values, implementation, device));
  }
  return support;
}

}  // namespace attnlab
