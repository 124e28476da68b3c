// Says what the sides of a gate ran beyond the kernels that their operations need, and of which
// points nobody saw what ran.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/report/field.h"

namespace attnlab {

// Names a point whose launch ran more than it needs.
struct BeyondPoint {
  std::string key, kernel;
  std::string launches;  // "2 direct_copy_kernel_cuda, 1 FillFunctor"
};

// Counts points of which nobody saw the kernels.
struct UnseenPoints {
  std::string reason;
  std::size_t points = 0;
};

// Holds it of one side.
struct SideKernels {
  std::string side;  // its name
  std::vector<BeyondPoint> beyond;
  std::vector<UnseenPoints> unseen;
};

// Reads the records of points that ran: what is unsupported launches nothing.
SideKernels kernels_of_side(const std::string& side, const std::vector<RecordJson>& records);

// Returns sentences, "" where all was seen and nothing ran beyond.
std::string describe(const std::vector<SideKernels>& sides);

// Returns objects of `side`, `key`, `kernel` and `launches`, and of `side`, `points` and `reason`.
nlohmann::ordered_json beyond_json(const std::vector<SideKernels>& sides);
nlohmann::ordered_json unseen_json(const std::vector<SideKernels>& sides);

}  // namespace attnlab
