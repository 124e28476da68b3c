// Collects what has to be compiled before something can run.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/plan/sweep.h"
#include "kernels/api/compiler.h"

namespace attnlab {

// Holds each job once.
class CompileJobs {
 public:
  // Adds what one competitor needs: its pass and, for Pass::bwd, the forward before it. Adds
  // nothing where its backend compiles nothing.
  void add(const Problem& problem, const Competitor& competitor, const Device& device);
  // Adds what all competitors need that want to run.
  void add(const std::vector<Case>& cases, const Device& device);

  const std::vector<CompileJob>& all() const { return jobs_; }

 private:
  std::vector<CompileJob> jobs_;
  std::set<std::string> known_;
};

}  // namespace attnlab
