// Puts the properties to every kernel and type.
#include <fmt/format.h>

#include <initializer_list>

#include "harness/base/derive_seed.h"
#include "harness/verify/relation.h"

namespace attnlab::verify {

namespace {

void plan_property(Plan& plan, const Property& property, const Implementation& kernel) {
  if (property.subjects.front()->problem().is_e4m3() && !kernel.has_e4m3) return;
  // The property uses one setup for all of its subjects.
  Setup setup = default_setup(kernel, plan.device(), property.pass);
  const auto reason_of = [&](const Setup& candidate) {
    for (const auto& subject : property.subjects) {
      if (std::string reason = unsupported(candidate, subject->problem()); !reason.empty()) {
        return reason;
      }
    }
    return std::string();
  };
  const std::string rest = fmt::format("{}/{}", property.name, property.variant);
  if (property.only_on && *property.only_on != kernel.backend) {
    return plan.skip(kernel, Part::properties, rest,
                     fmt::format("a property of {} devices", to_string(*property.only_on)));
  }
  if (property.needs_lse && !writes_lse(kernel, property.subjects.front()->problem())) {
    return plan.skip(kernel, Part::properties, rest, "writes no lse in this type");
  }
  const Problem& problem = property.subjects.front()->problem();
  if (property.scores_in_fp32 && problem.dtype != Dtype::f32 &&
      kernel.traffic(problem, setup.config)[Operand::s].write_bytes > 0) {
    return plan.skip(kernel, Part::properties, rest, "keeps scores in this type");
  }
  if (property.without == Property::Without::forward_alone && !reason_of(setup).empty()) {
    setup.pass = Pass::fwd;
  }
  if (const std::string reason = reason_of(setup); !reason.empty()) {
    return plan.skip(kernel, Part::properties, rest, reason);
  }
  const auto [block_m, block_n] = property.tiles;
  if (block_m != 0 && !has_blocks(kernel)) {
    return plan.skip(kernel, Part::properties, rest, "has no tiles to choose");
  }
  if (!plan.wants(Plan::name_of(kernel, Part::properties, rest))) return;
  const Setup any_order = block_m != 0 ? with_blocks(setup, block_m, block_n)
                                       : small_tiles(setup, property.subjects.front()->problem());
  setup = in_fixed_order(any_order);
  if (!reason_of(setup).empty()) setup = any_order;  // a kernel may have no other
  if (const std::string reason = reason_of(setup); !reason.empty()) {
    return plan.skip(kernel, Part::properties, rest, reason);
  }
  double weight = 0.0;
  for (const auto& subject : property.subjects) {
    if (setup.pass != Pass::fwd) subject->wants_backward();
    plan.launches(setup, subject->problem());
    weight += weight_of(subject->problem());
  }
  plan.add(setup, Part::properties, rest, weight,
           [setup, property] { property.check(setup, Relation(property.name)); });
}

using Properties = std::vector<Property> (*)(const Scene& scene, Dtype dtype);

void plan_all(Plan& plan, const Scene& scene, Dtype dtype, std::initializer_list<Properties> all) {
  for (const Properties properties : all) {
    for (const Property& property : properties(scene, dtype)) {
      for (const Implementation* kernel : plan.kernels()) plan_property(plan, property, *kernel);
    }
  }
}

}  // namespace

void plan_properties(Plan& plan) {
  const Scene scene = {.seed = derive_seed(plan.options().seed, "properties"),
                       .device = &plan.device()};
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    plan_all(plan, scene, dtype,
             {algebraic_properties, mask_properties, dropout_properties, launch_properties,
              large_score_properties});
  }
  // Codes of e4m3 do not hold the large scores whose differences are known.
  plan_all(plan, scene, Dtype::e4m3, {algebraic_properties, mask_properties, launch_properties});
}

}  // namespace attnlab::verify
