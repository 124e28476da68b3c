#include "harness/measure/blocks.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "harness/base/statistics.h"

namespace attnlab {
namespace {

constexpr double kBlockSeconds = 50e-3;
constexpr double kLargestDeviation = 0.05;  // of a block's clock from the median
constexpr int kMostMarked = 4;              // one block, or turn, of so many
constexpr double kLargestTurnDeviation = 0.02;

}  // namespace

void BlockWatch::read() {
  if (telemetry_ != nullptr) open_.reading = telemetry_->read();
}

void BlockWatch::add_sample(double seconds) {
  ++open_.samples;
  open_seconds_ += seconds;
  const bool is_whole = !(open_seconds_ < kBlockSeconds);
  if (is_whole || (blocks_.empty() && open_.samples == 1)) read();
  if (!is_whole) return;
  const int next = open_.first_sample + open_.samples;
  blocks_.push_back(std::move(open_));
  open_ = {.first_sample = next};
  open_seconds_ = 0.0;
}

std::vector<Block> BlockWatch::finish() {
  if (telemetry_ == nullptr) return {};
  if (open_.samples > 0 && blocks_.empty()) {
    blocks_.push_back(std::move(open_));
  } else if (open_.samples > 0) {
    blocks_.back().samples += open_.samples;
  }
  return std::exchange(blocks_, {});
}

std::ptrdiff_t turns_off(const std::vector<double>& seconds) {
  const double middle = median(seconds);
  return std::ranges::count_if(seconds, [&](double sample) {
    return !(std::abs(sample - middle) <= kLargestTurnDeviation * middle);
  });
}

bool turns_agree(const std::vector<double>& seconds) {
  return turns_off(seconds) * kMostMarked <= std::ssize(seconds);
}

BlockTelemetry judge_blocks(std::vector<Block> blocks, double median_s,
                            const std::string& why_not) {
  BlockTelemetry result{.blocks = std::move(blocks), .reason = why_not};
  std::vector<double> clocks;
  for (const Block& block : result.blocks) {
    if (block.reading.multiprocessor_clock_hz) {
      clocks.push_back(*block.reading.multiprocessor_clock_hz);
    }
  }
  if (clocks.empty()) {
    if (result.reason.empty()) result.reason = "the device does not say at which clock it runs";
    return result;
  }
  const double middle = median(clocks);
  const double mean =
      std::accumulate(clocks.begin(), clocks.end(), 0.0) / static_cast<double>(clocks.size());
  for (Block& block : result.blocks) {
    const std::optional<double>& clock = block.reading.multiprocessor_clock_hz;
    block.marked = !clock || !(std::abs(*clock - middle) <= kLargestDeviation * middle);
  }
  const auto marked = std::ranges::count_if(result.blocks, &Block::marked);
  result.median_clock_hz = middle;
  result.mean_clock_hz = mean;
  result.marked_blocks = static_cast<int>(marked);
  result.settled = marked * kMostMarked <= std::ssize(result.blocks);
  result.cycles = median_s * mean;
  return result;
}

}  // namespace attnlab
