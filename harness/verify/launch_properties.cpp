// Checks properties of a launch: what it may depend on, and what it may touch. Bits are compared.
#include <fmt/format.h>

#include "harness/base/derive_seed.h"
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

// Returns a subject of the same problem whose inputs have other values.
std::shared_ptr<Subject> with_other_values(const Subject& subject, const Setup& setup) {
  const std::uint64_t seed = derive_seed(subject.problem().seed, "other values");
  auto other = std::make_shared<Subject>(subject.problem(), InputKind::normal, seed, setup.device);
  if (setup.pass != Pass::fwd) other->wants_backward();
  return other;
}

// Writes the values of `from` where those of `to` lie. For Pass::bwd only dO is, since o and lse
// are of the others.
void copy_values(Subject& from, Subject& to, Pass pass) {
  to.rewrite([&](Inputs& inputs) {
    for (const InputTensor tensor :
         {InputTensor::q, InputTensor::k, InputTensor::v, InputTensor::dout}) {
      const bool is_dout = tensor == InputTensor::dout;
      if (pass == (is_dout ? Pass::fwd : Pass::bwd)) continue;
      const Values values = read_input(from.inputs(), tensor);
      inputs.fill(tensor, [&values](std::int64_t b, std::int64_t head, std::int64_t row,
                                    std::int64_t col) { return values.at(b, head, row, col); });
    }
  });
}

// Checks that a prepared kernel works on what its tensors hold at each launch: on other values
// where those of the launch before lay, and on values that lie elsewhere. What it kept of earlier
// launches (their values, results or addresses) would show.
Property inputs_of_the_launch(const Scene& scene, Dtype dtype, Pass pass) {
  const Problem problem = launch_problem(dtype, Layout::bshd);
  Property property{.name = "inputs-of-the-launch",
                    .variant = fmt::format("{}/{}", to_string(pass), to_string(dtype))};
  property.subjects = {scene.subject(problem)};
  property.pass = pass;
  property.without = Property::Without::skipped;
  property.check = [scene, problem, name = property.name](const Setup& setup, const Relation&) {
    // These are the check's own: it changes them, and others share what a property names.
    const auto subject = scene.subject(problem), same = scene.subject(problem);
    for (const auto& own : {subject, same}) {
      if (setup.pass != Pass::fwd) own->wants_backward();
    }
    auto other = with_other_values(*subject, setup);
    if (setup.pass == Pass::bwd) {
      copy_values(*other, *same, setup.pass);
      other = same;
    }
    Trial fresh(*other, setup);
    fresh.launch();
    const Outputs want = fresh.take_outputs();
    Trial trial(*subject, setup);
    trial.launch();
    copy_values(*other, *subject, setup.pass);
    trial.launch(Fill::as_left);
    require_same(trial, name, want, "for other values where those of the launch before lay");
    if (setup.pass == Pass::bwd) return;
    Trial moved(*same, setup);
    moved.launch();
    moved.move_to(*other);
    moved.launch(Fill::as_left);
    require_same(moved, name, want, "for values that lie elsewhere than in the launch before");
  };
  return property;
}

// Checks that a prepared kernel is not changed by another one of another problem, prepared and
// launched in between.
Property prepared_apart(const Scene& scene, Dtype dtype, Pass pass) {
  const auto subject = scene.subject(launch_problem(dtype, Layout::bshd));
  Problem another = small_problem(dtype, "none", 70, 33);
  another.softmax_scale = 0.7;
  another.head_dim = 32;
  const auto other = scene.subject(another);
  Property property{.name = "prepared-apart",
                    .variant = fmt::format("{}/{}", to_string(pass), to_string(dtype))};
  property.subjects = {subject, other};
  property.pass = pass;
  property.without = Property::Without::skipped;
  property.check = [subject, other, name = property.name](const Setup& setup, const Relation&) {
    Trial trial(*subject, setup);
    trial.launch();
    const Outputs first = trial.take_outputs();
    Trial between(*other, setup);
    between.launch();
    trial.launch();
    require_same(trial, name, first, "once another problem was prepared and launched");
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
  std::vector<Property> all = {threads_change_nothing(scene, dtype),
                               inputs_of_the_launch(scene, dtype, Pass::fwd),
                               prepared_apart(scene, dtype, Pass::fwd)};
  std::vector<Pass> passes = {Pass::fwd};
  if (dtype != Dtype::e4m3) {
    all.insert(all.begin(), backward_reads_only(scene, dtype));
    passes = {Pass::fwdbwd, Pass::bwd, Pass::fwd};
    all.push_back(inputs_of_the_launch(scene, dtype, Pass::fwdbwd));
    all.push_back(inputs_of_the_launch(scene, dtype, Pass::bwd));
    all.push_back(prepared_apart(scene, dtype, Pass::fwdbwd));
  }
  for (const Layout layout : {Layout::bshd, Layout::packed}) {
    for (const Pass pass : passes) all.push_back(workspace_contents(scene, dtype, layout, pass));
  }
  return all;
}

}  // namespace attnlab::verify
