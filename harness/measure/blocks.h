// Records what a device said of itself around a kernel's timed samples, and whether it was in one
// and the same state for all of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/record/readings.h"
#include "kernels/api/telemetry.h"

namespace attnlab {

// Reads a device after every 50 ms of samples. A reading tells the last moment of its block only: a
// GPU keeps its clock for milliseconds after the work has ended, and does not resolve what is
// shorter than that.
class BlockWatch {
 public:
  explicit BlockWatch(Telemetry* telemetry) : telemetry_(telemetry) {}  // null: reads nothing

  // Must be called after each sample, before anything else happens on the device. `seconds` is what
  // the sample took, with the rest or the load that belongs to it. A block ends with the sample
  // that makes it 50 ms long.
  void add_sample(double seconds);

  // Returns all blocks. The last whole block takes the samples after it, too; without a whole block
  // all samples are one block, read after the first of them.
  std::vector<Block> finish();

 private:
  void read();

  Telemetry* telemetry_;
  std::vector<Block> blocks_;
  Block open_;
  double open_seconds_ = 0.0;
};

// Counts the samples of turns that are more than 2 % off their median.
std::ptrdiff_t turns_off(const std::vector<double>& seconds);
// Returns whether at most a quarter of them are.
bool turns_agree(const std::vector<double>& seconds);

// Below this share of its turns a competitor is not under load: the GPU rests, and its clock is the
// higher one of a rested GPU.
inline constexpr double kLeastAtWork = 0.9;

// Marks the blocks whose clock is more than 5 % off the median of all, or is missing where others
// have one. `why_not` says why there are no blocks.
BlockTelemetry judge_blocks(std::vector<Block> blocks, double median_s, const std::string& why_not);

}  // namespace attnlab
