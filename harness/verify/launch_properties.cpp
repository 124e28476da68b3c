// Checks properties of a launch: what it may depend on, and what it may touch. Bits are compared.
#include <fmt/format.h>

#include "harness/verify/relation.h"

namespace attnlab::verify {

namespace {

Problem launch_problem(Dtype dtype, Layout layout) {
  Problem problem = small_problem(dtype, "causal");
  problem.dropout = small_dropout(dtype);
  problem.layout = layout;
  if (layout == Layout::packed) {
    problem.lengths = {
        .kind = LengthsKind::packed, .given = true, .queries = {30, 45}, .keys = {53, 40}};
  }
  return problem;
}

// Ends the check if outputs of two launches differ.
void require_same(const Trial& trial, const std::string& property, const Outputs& first,
                  const std::string& what) {
  const std::vector<std::string> different = trial.outputs().different(first);
  if (!different.empty()) {
    trial.fail("property: " + property,
               fmt::format("{} has other bits {}", different.front(), what));
  }
}

// Checks that a launch ignores what lies in its workspace beforehand, also what the launch before
// left there.
Property workspace_contents(const Scene& scene, Dtype dtype, Layout layout, Pass pass) {
  const auto subject = scene.subject(launch_problem(dtype, layout));
  Property property{
      .name = "workspace-contents",
      .variant = fmt::format("{}/{}/{}", to_string(layout), to_string(pass), to_string(dtype))};
  property.subjects = {subject};
  property.pass = pass;
  property.without = Property::Without::skipped;
  property.check = [subject, name = property.name](const Setup& setup, const Relation&) {
    Trial trial(*subject, setup);
    trial.launch(Fill::nan);
    const Outputs first = trial.take_outputs();
    for (const auto& [fill, what] : {std::pair{Fill::zeros, "with a workspace of zeros"},
                                     {Fill::ones, "with a workspace of 0x3F bytes"},
                                     {Fill::as_left, "with the workspace of the launch before"}}) {
      trial.launch(fill);
      require_same(trial, name, first, what);
    }
  };
  return property;
}

// A backward finds o and lse as its forward left them, and must leave them so: it compares their
// bits with those of the forward alone. (Every launch checks that it writes nowhere else.)
Property backward_reads_only(const Scene& scene, Dtype dtype) {
  const auto subject = scene.subject(launch_problem(dtype, Layout::bshd));
  Property property{.name = "backward-leaves-o-and-lse", .variant = to_string(dtype)};
  property.subjects = {subject};
  property.pass = Pass::bwd;
  property.without = Property::Without::skipped;
  property.check = [subject](const Setup& setup, const Relation& relation) {
    Setup forward = setup;
    forward.pass = Pass::fwd;
    forward.config = forward_config(*setup.kernel, setup.config);
    const Run before = run(*subject, forward, Bounds::none);
    const Run after = run(*subject, setup, Bounds::none);
    for (const Output output : {Output::o, Output::lse}) {
      relation.same(after, output, [&](const Place& p) {
        return static_cast<double>(before.values(output).at(p.b, p.h, p.row, p.col));
      });
    }
  };
  return property;
}

// Checks that the number of threads does not change the result, if sums have a fixed order.
Property threads_change_nothing(const Scene& scene, Dtype dtype) {
  Problem problem = launch_problem(dtype, Layout::bshd);
  problem.seqlen_q = 450;  // it is so long that the workers meet
  problem.seqlen_k = 430;
  const auto subject = scene.subject(problem);
  Property property{.name = "threads-change-nothing", .variant = to_string(dtype)};
  property.subjects = {subject};
  property.only_on = Backend::cpu;
  property.check = [subject, name = property.name](const Setup& setup, const Relation&) {
    Setup shared = setup;
    shared.device.threads = 1;
    Trial one(*subject, shared);
    one.launch();
    const Outputs first = one.take_outputs();
    for (int repeat = 0; repeat < 10; ++repeat) {
      shared.device.threads = 2 + repeat % 3;
      Trial many(*subject, shared);
      many.launch();
      require_same(many, name, first,
                   fmt::format("with {} threads than with 1", shared.device.threads));
    }
  };
  return property;
}

}  // namespace

std::vector<Property> launch_properties(const Scene& scene, Dtype dtype) {
  std::vector<Property> all = {threads_change_nothing(scene, dtype)};
  std::vector<Pass> passes = {Pass::fwd};
  if (dtype != Dtype::e4m3) {
    all.insert(all.begin(), backward_reads_only(scene, dtype));
    passes = {Pass::fwdbwd, Pass::bwd, Pass::fwd};
  }
  for (const Layout layout : {Layout::bshd, Layout::packed}) {
    for (const Pass pass : passes) all.push_back(workspace_contents(scene, dtype, layout, pass));
  }
  return all;
}

}  // namespace attnlab::verify
