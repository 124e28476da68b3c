#include "harness/run/output_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/base/derive_seed.h"
#include "harness/run/ending.h"

namespace attnlab {
namespace {

// The poison is a NaN in every type, and no operation makes it: theirs have one bit of the
// mantissa, or lack the sign.
constexpr std::uint8_t kPoison = Arena::kFill;

// A decoy repeats to a large number of every type, 6e4 and 4e2 in f16: a kernel that looks for NaN
// finds none. The first that no output of this problem has is taken, at last poison itself.
constexpr std::uint8_t kDecoys[] = {0x7B, 0x5B, 0xDB, kPoison};

std::uint8_t choose_decoy(const Outputs& outputs) {
  return *std::ranges::find_if(kDecoys, [&](std::uint8_t byte) {
    return byte == kPoison || outputs.unwritten(byte).empty();
  });
}

void reject(const std::string& unwritten, const char* launch) {
  if (unwritten.empty()) return;
  throw Ending{Status::invalid, fmt::format("{} left {} unwritten: it did not do all of its work, "
                                            "so its time is void",
                                            launch, unwritten)};
}

}  // namespace

OutputWatch::OutputWatch(CompetitorRun& run, std::function<void(int)> launch_spare)
    : run_(run),
      launch_spare_(std::move(launch_spare)),
      places_(derive_seed(run.record.point.seed, run.name())) {
  run_.checks = {.sets = run.spare ? 2 : 1, .reason = run.why_no_spare};
}

// Looks at launches onto the spare outputs, which repeat themselves there like the launches of a
// sample: at the first, and at one that may stand for any of those that follow it in a sample.
void OutputWatch::prepare(int launches) {
  if (decoy_ == 0) decoy_ = choose_decoy(*run_.outputs);
  if (launches > 1) {
    launch_onto_spare();
    check_spare();
    launch_spare_(repeats_before_a_look(launches));
  }
  poison();
  launch_onto_spare();
  if (run_.spare) return;  // it is looked at after the sample: a look takes room in caches
  check_spare();
  poison();
}

// Draws a number from 0 to launches - 1, anew for each sample: a fixed sequence could stay in step
// with a fault that recurs every few launches.
int OutputWatch::repeats_before_a_look(int launches) {
  return static_cast<int>(places_() % static_cast<std::uint64_t>(launches));
}

void OutputWatch::poison() { run_.outputs->fill(kPoison); }

void OutputWatch::poison_if_shared() {
  if (!run_.spare) poison();
}

void OutputWatch::check() {
  reject(run_.outputs->unwritten(kPoison), "a timed sample");
  if (run_.spare) check_spare();
  compare();
  ++run_.checks.samples;
}

Outputs& OutputWatch::spare() const { return run_.spare ? *run_.spare : *run_.outputs; }

void OutputWatch::launch_onto_spare() {
  spare().fill(decoy_);
  launch_spare_(1);
  ++run_.checks.launches;
}

void OutputWatch::check_spare() const {
  reject(spare().unwritten(decoy_), "an untimed launch between samples");
}

// Compares what has the same bits in every launch: all but gradients whose sums have no order.
void OutputWatch::compare() {
  const Pass pass = run_.record.point.problem.pass;
  std::vector<std::string> compared;
  if (!has_fixed_order(run_.kernel(), run_.competitor->config, pass)) {
    if (pass == Pass::bwd) return;
    compared = {"o", "lse"};
  }
  if (run_.checks.samples == 0) return run_.outputs->seal();
  const std::string changed = run_.outputs->changed(compared);
  run_.checks.same_bits = changed.empty();
  if (changed.empty()) return;
  throw Ending{
      Status::invalid,
      fmt::format("sample {} left other bits in {} than the first one: results of launches "
                  "differ, so their times are not of the same work",
                  run_.checks.samples + 1, changed)};
}

}  // namespace attnlab
