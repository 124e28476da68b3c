// What is timed of the entrants of a case.
#pragma once

#include <functional>
#include <vector>

#include "harness/measure/bench.h"
#include "harness/run/entrant.h"
#include "harness/run/input_rotation.h"
#include "kernels/api/runtime.h"

namespace attnlab {

struct Contenders {
  std::vector<Contender> launches;  // one an entrant, in their order
  std::vector<Contender> graphs;    // the same launches replayed from graphs; of a peer: as above
  // The same launches with nothing between them: queued while the device works, so that it never
  // waits. What they take is no time of theirs. Of a peer: as above.
  std::vector<Contender> queued;
};

// Our kernels launch on `runtime`, each time on the next of their sets of inputs; peers time
// themselves. Samples of `launches` are watched by their outputs, and those of graphs
// (output_watch.h), which is noted in Entrant::checks. Sets Entrant::launch_next, which must not
// outlive `rotation`. `before` is called before each warm-up launch and sample.
Contenders make_contenders(const std::vector<Entrant*>& entrants, InputRotation& rotation,
                           Runtime& runtime, const std::function<void()>& before);

}  // namespace attnlab
