// Says in which ways the competitors of a case are timed.
#pragma once

#include <functional>
#include <vector>

#include "harness/measure/bench.h"
#include "harness/run/competitor_run.h"
#include "harness/run/input_rotation.h"
#include "kernels/api/runtime.h"

namespace attnlab {

struct WaysToTime {
  std::vector<TimedLaunches> launches;  // one a competitor, in their order
  std::vector<TimedLaunches> graphs;  // the same launches replayed from graphs; of a peer: as above
  // These are the same launches, queued while the device works, so that it never waits between
  // them. The time that they take is not a launch's.
  std::vector<TimedLaunches> queued;
  // These are like `launches`, but unwatched, and only of competitors that have a timeline.
  std::vector<TimedLaunches> timelines;
};

// Our kernels launch on `runtime`, each time on the next of their sets of inputs; peers time
// themselves. Samples of `launches` are watched by their outputs, and those of graphs
// (output_watch.h), which is noted in CompetitorRun::checks. Sets CompetitorRun::launch_next, which
// must not outlive `rotation`. `before` is called before each warm-up launch and sample. On a CPU
// each timed launch is followed by `planted_share` of its own time in which nothing is done.
WaysToTime ways_to_time(const std::vector<CompetitorRun*>& runs, InputRotation& rotation,
                        Runtime& runtime, const std::function<void()>& before,
                        double planted_share = 0.0);

}  // namespace attnlab
