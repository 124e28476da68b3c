// Finds what may hold a point back, each as a share of its time, with the number and where
// that comes from. What nothing measured has a reason in place of a share, and binds nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/measure/peaks.h"
#include "harness/report/field.h"
#include "harness/report/tile_facts.h"

namespace attnlab {

enum class Limiter : std::uint8_t {
  unsettled,      // of nothing: the time itself is in doubt
  clock,          // held down, mostly by the power cap
  tensor,         // products, on tensor cores or, of f32, by multiply-adds
  dram,           //
  l2,             //
  exponentials,   // of the softmax
  shared_memory,  // its bank conflicts
  launch,         // what launching costs beside a replay from a graph
  few_tiles,      // multiprocessors without a work item
  tail,           // the last wave of work items
  spills,
};
inline constexpr int kLimiters = 11;
const char* to_string(Limiter limiter);  // "tensor cores"

struct LimiterShare {
  Limiter limiter = Limiter::unsettled;
  std::optional<double> share;  // of the time; empty: not measured, or it has none
  // It is the share divided by that from which it binds: from 1 on it binds, the largest first.
  double weight = 0.0;
  std::string number;  // "649 of 768 TFLOP/s"
  std::string source;  // "chip at 1420 MHz"
  std::string reason;  // why there is no number; empty: there is one

  bool binds() const { return reason.empty() && weight >= 1.0; }
};

// Returns what was compiled of the kernel that takes the time: of the only one, or of the one that
// took most of it while it was traced; null where that is not known.
RecordJson main_entry(const RecordJson& record);

// Compares the work items of a launch with the places for them.
struct Waves {
  std::optional<double> items;
  std::optional<double> places;  // thread blocks that the device holds at once
  double multiprocessors = 0.0;
  bool equal = false;  // all items take equally long
  bool seen = false;   // their kernel; else they are the schedule's tiles of rows
  std::string reason;  // why something is empty
};
Waves waves_of(const RecordJson& record, const TileFacts& facts);

// Returns the share of `places` that idles while the last wave of `items` runs.
double idle_share(double items, double places);

// Counts the blocks of samples that were off the clock; of a settled run whose clock stood, the
// turns that were off the median time.
struct Unsettled {
  double marked = 0.0, all = 0.0;
  const char* what = "";          // "blocks", "turns"
  std::optional<double> at_work;  // the share of a turn, where that is too small
};
std::optional<Unsettled> unsettled_of(const RecordJson& record);

// Holds the bank conflicts of shared memory in a launch.
struct SharedConflicts {
  double wavefronts = 0.0, loads = 0.0, stores = 0.0;
};
std::optional<SharedConflicts> shared_conflicts(const RecordJson& record);

// Returns one finding a limiter: those that bind, the first of them before all, then the other
// shares in falling order, then what nothing measured. `peaks` are the device's; null stands for
// the record's own or the data sheet's. A record without a time is judged on paper: the work that
// takes longest is the time. Throws nlohmann::json::exception for a record of another form.
std::vector<LimiterShare> find_limiters(const RecordJson& record, const TileFacts& facts,
                                        const Peaks* peaks);

// Returns the time that shares are of: the median, or on paper that of what takes longest.
std::optional<double> explained_seconds(const RecordJson& record, const TileFacts& facts,
                                        const Peaks* peaks);

}  // namespace attnlab
