// OutputWatch checks by their outputs whether timed launches do their work: before each sample
// these are filled with poison, and none of it may be left afterwards. Between samples launches go
// onto other outputs, filled with a number that no result is, which must be gone afterwards. This
// catches a launch that looks at what its outputs hold, that does less when it is repeated on the
// same ones, or that stays bound to its first outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include "harness/record/record.h"
#include "harness/run/competitor_run.h"

namespace attnlab {

class OutputWatch {
 public:
  // `launch_spare` launches so often onto the competitor's spare outputs, or, where it has none,
  // onto those that are timed, and waits. `run` must outlive the object.
  OutputWatch(CompetitorRun& run, std::function<void(int launches)> launch_spare);

  // Prepares a sample of so many launches: launches onto the spare outputs, which brings inputs
  // back into the caches and the clock up, and poisons those that will be timed. Throws Ending
  // (Status::invalid).
  void prepare(int launches);
  // These poison what will be timed; the second only if a launch onto spare outputs overwrote it.
  void poison();
  void poison_if_shared();
  // Must follow the sample. Throws Ending (Status::invalid) where poison is left, where the
  // launches onto the spare outputs left something unwritten, or where results are not the bits of
  // the first sample.
  void check();

 private:
  int repeats_before_a_look(int launches);
  Outputs& spare() const;
  void launch_onto_spare();
  void check_spare() const;
  void compare();

  CompetitorRun& run_;
  std::function<void(int launches)> launch_spare_;
  std::mt19937_64 places_;  // at which a launch is looked at
  std::uint8_t decoy_ = 0;  // what spare outputs are filled with; 0: not chosen yet
};

}  // namespace attnlab
