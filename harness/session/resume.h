// Finds what is left of a sweep whose records are partly in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/run/context.h"
#include "harness/run/run.h"

namespace attnlab {

// Says what of a sweep runs: the points that the file lacks, or also those that were timed in a
// case (of whatever layouts, which take turns) in which a point's clock did not settle.
enum class Rest : std::uint8_t { missing, missing_or_unsettled };

struct Remainder {
  std::vector<Case> cases;   // with the competitors that are to run, in their order
  std::size_t finished = 0;  // points of the sweep that the file has, and that do not run again
  std::vector<std::string> notes;  // whole sentences: what the user should know of the file
};

// A point is finished if the file has a record of its key, whatever its status; but one that was
// skipped or unsupported is not if it could run now, nor, with Rest::missing_or_unsettled, one that
// was timed in a case with a point that did not settle (time.telemetry.settled). Throws UsageError,
// led by `file`, where the last record of a finished point says that it was measured otherwise than
// the rest would be: in sweep, problem, protocol, device, isa, threads, compiler or flags. Another
// commit is a note, as are points that are not of this sweep. It is an error, too, if no point of
// the file is of this sweep, or if records are of another shard than the context's.
Remainder find_remainder(const std::vector<Case>& cases, const RunContext& context,
                         const std::vector<nlohmann::ordered_json>& records,
                         const std::string& file, Rest wanted = Rest::missing);

}  // namespace attnlab
