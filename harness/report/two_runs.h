// Puts what two runs of the papers' experiments found side by side, claim by claim.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/report/reproduction.h"

namespace attnlab {

// Holds a claim in both runs. The claims are the same, and so are the rules: both runs are judged
// anew, from their records.
struct ClaimOfTwoRuns {
  std::string experiment;
  const Claim* claim = nullptr;
  Judgement here, there;
};

struct TwoRuns {
  // Each says where the records of a run lie, and on which device and when they were made.
  std::string here, there;
  std::vector<ClaimOfTwoRuns> claims;
  std::vector<std::string> missing;  // experiments of which only one run has records
};

// Returns "FOLDER, NVIDIA H200, commit c, first to last day" of a run's experiments.
std::string describe_run(const std::string& folder, const std::vector<Reproduction>& experiments);

// Pairs the claims of the same experiments, in their order. Both must outlive the result.
std::vector<ClaimOfTwoRuns> pair_claims(const Reproduction& here, const Reproduction& there);

// Returns the figure of `here` over that of `there`, none where one has none or is 0.
std::optional<double> ratio_of(const ClaimOfTwoRuns& claim);

// Renders all claims, then how many agree, and for each verdict that differs what both rest on.
std::string render_two_runs(const TwoRuns& runs, TableFormat format);

}  // namespace attnlab
