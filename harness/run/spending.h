// Counts where the seconds of a run went: what verification costs beside timing.
#pragma once

#include <string>

namespace attnlab {

struct Spending {
  double inputs = 0.0;        // drawn, and brought to the device
  double references = 0.0;    // what outputs are held against
  double verification = 0.0;  // of our kernels: launches that are judged, and judging
  double peers = 0.0;         // the same of peers: their processes, and tensors to them and back
  double watch = 0.0;         // between timed samples: poison, launches onto spare outputs, looks
  double timing = 0.0;        // warm-up, samples, rests and loads
  double observation = 0.0;   // counters, evidence, energy
};

// Returns "Spent: references 3.1 s, ..." without what took no time; "" if nothing ran.
std::string describe(const Spending& spending);

}  // namespace attnlab
