// How a competitor's way through its case ends.
#pragma once

#include <string>

#include "harness/record.h"

namespace attnlab {

// Ends a competitor's way through the case early: its record gets this status and reason.
struct Ending {
  Status status;
  std::string reason;
};

}  // namespace attnlab
