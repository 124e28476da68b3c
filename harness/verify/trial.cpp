#include "harness/verify/trial.h"

#include <fmt/format.h>

#include "harness/plan/accounting.h"
#include "harness/plan/case.h"
#include "harness/plan/unsupported.h"
#include "reference/tolerance.h"

namespace attnlab::verify {

namespace {

// Returns the byte that fills the workspace. ones: 0x3F3F3F3F is 0.75 in f32.
std::uint8_t byte_of(Fill fill) {
  switch (fill) {
    case Fill::zeros: return 0;
    case Fill::ones: return 0x3F;
    case Fill::nan:
    case Fill::as_left: break;
  }
  return 0xFF;
}

}  // namespace

std::string Setup::text() const {
  std::string where = to_string(kernel->backend);
  if (kernel->backend == Backend::cpu) {
    where =
        fmt::format("{}, {} thread{}", device.isa, device.threads, device.threads == 1 ? "" : "s");
  }
  return fmt::format("{} {}, {}", kernel->name, config.to_string(), where);
}

std::string unsupported(const Setup& setup, const Problem& problem) {
  Problem with_pass = problem;
  with_pass.pass = setup.pass;
  return why_unsupported(*setup.kernel, setup.config, with_pass, setup.device);
}

bool has_fixed_order(const Setup& setup) {
  return attnlab::has_fixed_order(*setup.kernel, setup.config, setup.pass);
}

Trial::Trial(Subject& subject, const Setup& setup)
    : subject_(&subject), setup_(setup), problem_(subject.problem()) {
  problem_.pass = setup.pass;
  setup_.config =
      resolved(*setup.kernel, problem_, setup.config, setup.device);  // as messages name it
  competitor_ = {.kernel = setup.kernel->name,
                 .backend = setup.kernel->backend,
                 .implementation = setup.kernel,
                 .config = setup_.config};
  run_.competitor = &competitor_;
  run_.record.memory = memory_needed(problem_, competitor_, setup.device);
  const Tensors& inputs = subject.inputs().tensors();
  if (problem_.pass == Pass::bwd) {
    const std::string where = run_.run_forward(subject.arena(), problem_, setup.device, inputs);
    if (!where.empty()) fail("guards", "the forward before it " + where);
  }
  workspace_ = subject.arena().allocate("workspace", run_.workspace_bytes());
  run_.prepared = run_.prepare(problem_, setup.device);
}

void Trial::launch(Fill fill) {
  host_.reset();
  outputs_.reset();
  outputs_.emplace(run_.make_outputs(subject_->arena(), problem_));
  if (fill != Fill::as_left) {
    subject_->arena().runtime().fill(workspace_.get(), byte_of(fill), run_.workspace_bytes());
  }
  Tensors inputs = subject_->inputs().tensors();
  if (problem_.pass == Pass::fwd) inputs.dout = nullptr;
  tensors_ = run_.attach(inputs, *outputs_, workspace_);
  run_.launch(tensors_, subject_->arena().runtime());
  check_surroundings();
}

void Trial::check_surroundings() {
  if (const std::string where = subject_->arena().restore_guards(); !where.empty()) {
    fail("guards", where);
  }
  if (const std::string input = subject_->inputs().changed(); !input.empty()) {
    fail("inputs unchanged", fmt::format("changed {}, which it may only read", input));
  }
  if (problem_.pass != Pass::bwd) return;
  if (const std::string input = run_.forward->changed(); !input.empty()) {
    fail(
        "inputs unchanged",
        fmt::format("the backward changed {}, which its forward left and it may only read", input));
  }
}

const Tensors& Trial::host() {
  if (!host_) {
    host_.emplace(problem_, tensors_, subject_->inputs().host(), subject_->arena().runtime());
  }
  return host_->tensors();
}

std::vector<reference::Verdict> Trial::judge() {
  auto verdicts = reference::judge(
      problem_, host(), subject_->references(products_of(problem_, setup_.kernel, setup_.config)));
  for (const reference::Verdict& verdict : verdicts) {
    if (verdict.pass) continue;
    throw Failure{"oracle: " + verdict.tensor, verdict.message + "; " + setup_.text()};
  }
  return verdicts;
}

void Trial::fail(const std::string& check, const std::string& message) const {
  throw Failure{check, fmt::format("{}; {}; {}", message, problem_.id(), setup_.text())};
}

}  // namespace attnlab::verify
