// One case -> its records. The one place where inputs, kernels, verification, timing and memory
// meet: tensors -> prepare -> launch -> verify -> time (interleaved) -> verify what was timed ->
// record.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/progress.h"
#include "harness/record.h"
#include "harness/sweep.h"

namespace attnlab {

struct RunContext {
  const Device* device = nullptr;
  Protocol protocol;
  std::string sweep_name;
  std::string command_line;
  std::uint64_t memory_limit_bytes = 0;  // larger cases are recorded as out_of_memory, unallocated
};

// Runs all competitors of one case and calls `finished` with each record as soon as it is complete.
// A competitor that throws, fails verification or does not fit is a record, and the others go on.
void run_case(const Case& work, const RunContext& context, Progress& progress,
              const std::function<void(const Record&)>& finished);

}  // namespace attnlab
