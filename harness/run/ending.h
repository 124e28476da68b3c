// Says how a competitor's way through its case ends.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "harness/record/record.h"

namespace attnlab {

// Ends a competitor's way through the case early: its record gets this status and reason.
struct Ending {
  Status status;
  std::string reason;
};

// Runs a step of a case and says how it ended early, if it did: an Ending that it threw, or what
// any other exception stands for. Passes on Interrupted and DeviceLost, which end more than one
// competitor's way.
std::optional<Ending> ending_of(const std::function<void()>& step);

}  // namespace attnlab
