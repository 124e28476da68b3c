// OutputWatch checks by their outputs whether timed launches do their work: before each sample
// these are filled with poison, and none of it may be left afterwards. Between samples launches go
// onto other outputs, filled with a number that no result is, or holding results a part of which
// was overwritten, by that number or by other results. All must be mended afterwards. This catches
// a launch that looks at what its outputs hold, that leaves what seems to be right, that does less
// when it is repeated on the same ones, or that stays bound to its first outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

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
  // the launch that was verified. Gradients whose sums have any order are judged after some
  // samples, which throws as Judge::judge() does.
  void check();

  // Chooses what to look at of launches that go on without samples, so many at a call: one call in
  // 16, in which the number that is returned comes before poison(), the others after it, and then
  // look(). Returns all `launches` in other calls.
  int launches_before_a_look(int launches);
  // Throws Ending (Status::invalid) where poison is left or bits are not those that were verified.
  void look();

 private:
  int draw_below(int count);
  Outputs& spare() const;
  void launch_onto_filled();
  void launch_onto_damaged();
  void check_spare();
  bool has_fixed_order() const;
  std::string changed_of(const Outputs& outputs, std::vector<std::string> names) const;
  void judge(const Outputs& outputs) const;

  CompetitorRun& run_;
  std::function<void(int launches)> launch_spare_;
  std::mt19937_64 places_;            // at which a launch is looked at
  std::uint8_t decoy_ = 0;            // what spare outputs are filled with; 0: not chosen yet
  bool spare_is_right_ = false;       // its last contents were checked
  bool spare_was_damaged_ = false;    // before its last launch, in part; else filled
  int calls_ = 0, watched_call_ = 0;  // of launches_before_a_look(), in 16 of them
};

}  // namespace attnlab
