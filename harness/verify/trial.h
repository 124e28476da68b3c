// Launches one kernel on one subject under guard, and judges what it leaves.
#pragma once

#include <optional>
#include <string>

#include "harness/run/competitor_run.h"
#include "harness/tensors/host_tensors.h"
#include "harness/verify/subject.h"

namespace attnlab::verify {

// Ends a check. `check` is Result::check; `message` is for people.
struct Failure {
  std::string check;
  std::string message;
};

// Says what runs: a kernel, how, where, and which pass.
struct Setup {
  const Implementation* kernel = nullptr;
  Config config;
  Device device;
  Pass pass = Pass::fwd;

  // Returns what ends a message about it: "v2 block_m=48,block_n=17, avx2, 2 threads".
  std::string text() const;
};

// Returns "" if the setup can run the subject's problem, else why not.
std::string unsupported(const Setup& setup, const Problem& problem);

// Returns whether launches of the setup must leave the same bits (harness/plan/case.h).
bool has_fixed_order(const Setup& setup);

// Says what a workspace holds before a launch; `as_left`: what the launch before left.
enum class Fill { nan, zeros, ones, as_left };

class Trial {
 public:
  // Prepares the kernel; for Pass::bwd its own forward is run, whose outputs are sealed. Throws
  // Failure; passes on what the kernel throws.
  Trial(Subject& subject, const Setup& setup);

  // Launches once, on new outputs full of NaN. Throws Failure if anything was written that is not
  // an output or the workspace.
  void launch(Fill fill = Fill::nan);

  // Has later launches read the inputs of another subject of the same problem, and write beside
  // them. Not for Pass::bwd, whose forward was of the first one.
  void move_to(Subject& other) { subject_ = &other; }

  // Throws Failure where the oracle disagrees with the last launch. Returns the verdicts.
  std::vector<reference::Verdict> judge();

  const Problem& problem() const { return problem_; }
  // Returns what the last launch left, where this process can read it; for Pass::bwd also o and lse
  // of its forward.
  const Tensors& host();
  const Outputs& outputs() const { return *outputs_; }
  // Takes the outputs away, so that the next launch does not replace them.
  Outputs take_outputs() { return std::move(*outputs_); }

  // Throws a Failure that ends with the setup and the problem.
  [[noreturn]] void fail(const std::string& check, const std::string& message) const;

 private:
  void check_surroundings();

  Subject* subject_;
  Setup setup_;
  Problem problem_;  // with the setup's pass
  Competitor competitor_;
  CompetitorRun run_;
  Arena::Buffer workspace_;
  std::optional<Outputs> outputs_;
  Tensors tensors_;
  std::optional<HostTensors> host_;  // of tensors_
};

}  // namespace attnlab::verify
