// Launches one prepared kernel again and again on outputs full of NaN: the bits must be the same
// every time. A config that declares itself not deterministic is compared with the oracle instead,
// each time; its o and lse must be the same bits all the same.
#include <fmt/format.h>

#include "harness/base/derive_seed.h"
#include "harness/verify/checks.h"

namespace attnlab::verify {

namespace {

struct RepeatedProblem {
  const char* name;
  Problem problem;
};

// Returns problems with several tiles each way, so that workers meet.
std::vector<RepeatedProblem> repeated_problems() {
  const Problem dense = {.num_heads_q = 4,
                         .num_heads_kv = 2,
                         .seqlen_q = 150,
                         .seqlen_k = 170,
                         .head_dim = 24,
                         .mask = parse_mask("causal"),
                         .dropout = 0.1};
  Problem packed = dense;
  packed.dtype = Dtype::f16;
  packed.batch = 4;
  packed.layout = Layout::packed;
  packed.lengths = {.kind = LengthsKind::packed,
                    .given = true,
                    .queries = {70, 1, 150, 31},
                    .keys = {55, 70, 170, 0}};
  packed.mask = parse_mask("window:60:20");
  Problem blocks = dense;
  blocks.dtype = Dtype::bf16;
  blocks.seqlen_q = 170;
  blocks.dropout = 0.0;
  blocks.layout = Layout::bhsd;
  blocks.batch = 2;
  blocks.mask = parse_mask("padding+blocks:bigbird:1:1:1:16x16");
  blocks.lengths = {.kind = LengthsKind::padding, .given = true, .keys = {170, 90}};
  const auto quantised = [](Problem problem, const Quantisation& quantisation) {
    problem.dtype = Dtype::e4m3;
    problem.head_dim = 32;
    problem.dropout = 0.0;
    problem.quantisation = quantisation;
    return problem;
  };
  return {{"dense", dense},
          {"packed", packed},
          {"blocks", blocks},
          {"e4m3/dense", quantised(dense, {.qk = ScaleOf::block, .v = ScaleOf::block})},
          {"e4m3/packed", quantised(packed, {.qk = ScaleOf::head, .v = ScaleOf::channel})},
          {"e4m3/blocks", quantised(blocks, {.qk = ScaleOf::tensor, .v = ScaleOf::head})}};
}

void repeat(Subject& subject, const Setup& setup, int times) {
  Trial trial(subject, setup);
  trial.launch();
  const Outputs first = trial.take_outputs();
  const bool fixed = has_fixed_order(setup);
  for (int launch = 2; launch <= times; ++launch) {
    trial.launch();
    if (!fixed) trial.judge();
    for (const std::string& name : trial.outputs().different(first)) {
      if (!fixed && name != "o" && name != "lse") continue;
      trial.fail("repeats", fmt::format("launch {} of {}: {} has other bits than after the first",
                                        launch, times, name));
    }
  }
}

// Plans a pass of a kernel: sums in any order, where it has such, and in a fixed one.
void plan_pass(Plan& plan, const std::string& name, const std::shared_ptr<Subject>& subject,
               const Implementation& kernel, Pass pass) {
  const Options& options = plan.options();
  const Problem& problem = subject->problem();
  const Setup any_order = small_tiles(default_setup(kernel, plan.device(), pass), problem);
  std::vector<Setup> setups = {any_order};
  if (!has_fixed_order(any_order)) setups.push_back(in_fixed_order(any_order));
  for (const Setup& setup : setups) {
    const bool held_to_tolerance = !has_fixed_order(setup);
    const std::string rest =
        fmt::format("{}/{}{}", name, to_string(pass), held_to_tolerance ? "/any-order" : "");
    if (const std::string reason = unsupported(setup, problem); !reason.empty()) {
      plan.skip(kernel, Part::repeats, rest, reason);
      continue;
    }
    if (!plan.wants(Plan::name_of(kernel, Part::repeats, rest))) continue;
    if (pass != Pass::fwd) subject->wants_backward();
    plan.launches(setup, problem);
    plan.add(setup, Part::repeats, rest, options.repeat * weight_of(problem),
             [subject, setup, times = options.repeat] { repeat(*subject, setup, times); });
  }
}

}  // namespace

void plan_repeats(Plan& plan) {
  for (auto [name, problem] : repeated_problems()) {
    const std::uint64_t seed = derive_seed(plan.options().seed, fmt::format("repeats/{}", name));
    problem.seed = seed;
    const auto subject = std::make_shared<Subject>(problem, InputKind::normal, seed, plan.device());
    for (const Implementation* kernel : plan.kernels()) {
      if (problem.is_e4m3()) {
        if (kernel->has_e4m3) plan_pass(plan, name, subject, *kernel, Pass::fwd);
        continue;
      }
      for (const Pass pass : {Pass::fwdbwd, Pass::bwd, Pass::fwd}) {
        plan_pass(plan, name, subject, *kernel, pass);
      }
    }
  }
}

}  // namespace attnlab::verify
