#include "harness/run/output_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
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

// Gradients whose sums have any order are judged after one of so many samples: it takes longer than
// comparing bits.
constexpr int kSamplesOfJudged = 4;
constexpr int kCallsOfWatched = 16;  // one of which launches_before_a_look() has looked at

constexpr const char* kTimed = "a timed sample";
constexpr const char* kUntimed = "an untimed launch between samples";

void reject(const std::string& unwritten, const char* launch) {
  if (unwritten.empty()) return;
  throw Ending{Status::invalid, fmt::format("{} left {} unwritten: it did not do all of its work, "
                                            "so its time is void",
                                            launch, unwritten)};
}

void reject_bits(const std::string& changed, const char* launch, const char* where) {
  if (changed.empty()) return;
  throw Ending{
      Status::invalid,
      fmt::format("{} left other bits in {} than the launch that was verified{}: results of "
                  "launches differ, so their times are not of the same work",
                  launch, changed, where)};
}

}  // namespace

OutputWatch::OutputWatch(CompetitorRun& run, std::function<void(int)> launch_spare)
    : run_(run),
      launch_spare_(std::move(launch_spare)),
      places_(derive_seed(run.record.point.seed, run.name())) {
  run_.outputs->seal_as(run.verified);
  if (run.spare) run_.spare->seal_as(run.verified);
  run_.checks = {.sets = run.spare ? 2 : 1, .reason = run.why_no_spare};
}

// Looks at launches onto the spare outputs, which repeat themselves there like the launches of a
// sample: at the first, and at one that may stand for any of those that follow it in a sample. That
// one finds results there, as they do, but for the part that was overwritten.
void OutputWatch::prepare(int launches) {
  if (decoy_ == 0) decoy_ = choose_decoy(*run_.outputs);
  if (launches > 1) {
    launch_onto_filled();
    check_spare();
    launch_spare_(draw_below(launches));
    launch_onto_damaged();
    check_spare();
  }
  if (run_.spare) poison();
  // A long launch is made once before a sample, onto the one or the other.
  if (launches == 1 && spare_is_right_ && draw_below(2) == 0) {
    launch_onto_damaged();
  } else {
    launch_onto_filled();
  }
  if (run_.spare) return;  // it is looked at after the sample: a look takes room in caches
  check_spare();
  poison();
}

// Draws a number from 0 to count - 1, anew for each sample: a fixed sequence could stay in step
// with a fault that recurs every few launches.
int OutputWatch::draw_below(int count) {
  return static_cast<int>(places_() % static_cast<std::uint64_t>(count));
}

int OutputWatch::launches_before_a_look(int launches) {
  if (calls_ == 0) watched_call_ = draw_below(kCallsOfWatched);
  const bool is_watched = calls_ == watched_call_;
  calls_ = (calls_ + 1) % kCallsOfWatched;
  return is_watched ? draw_below(launches) : launches;
}

void OutputWatch::poison() { run_.outputs->fill(kPoison); }

void OutputWatch::poison_if_shared() {
  if (!run_.spare) poison();
}

void OutputWatch::check() {
  look();
  if (run_.spare) check_spare();
  if (!has_fixed_order() && draw_below(kSamplesOfJudged) == 0) judge(*run_.outputs);
  ++run_.checks.samples;
}

void OutputWatch::look() {
  reject(run_.outputs->unwritten(kPoison), kTimed);
  const std::string changed = changed_of(*run_.outputs, {});
  run_.checks.same_bits = changed.empty();
  if (!changed.empty()) judge(*run_.outputs);  // results that are wrong say more than other bits
  reject_bits(changed, kTimed, "");
}

Outputs& OutputWatch::spare() const { return run_.spare ? *run_.spare : *run_.outputs; }

void OutputWatch::launch_onto_filled() {
  spare().fill(decoy_);
  spare_was_damaged_ = false;
  launch_spare_(1);
  ++run_.checks.launches;
}

// Other results in place of the decoy are seen by their bits alone.
void OutputWatch::launch_onto_damaged() {
  std::optional<std::uint8_t> byte = decoy_;
  if (has_fixed_order() && draw_below(2) == 0) byte.reset();
  spare().damage(places_, byte);
  spare_was_damaged_ = true;
  launch_spare_(1);
  ++run_.checks.launches;
}

void OutputWatch::check_spare() {
  reject(spare().unwritten(decoy_), kUntimed);
  const std::string changed = changed_of(spare(), spare().damageable());
  if (!changed.empty() && !spare_was_damaged_) judge(spare());
  reject_bits(changed, kUntimed,
              spare_was_damaged_ ? ", where results had been overwritten with others" : "");
  spare_is_right_ = true;
}

// Returns whether every launch leaves the same bits, not in o and lse alone.
bool OutputWatch::has_fixed_order() const {
  return attnlab::has_fixed_order(run_.kernel(), run_.competitor->config, run_.problem().pass);
}

// Returns which tensor has other bits than the launch that was verified left, "" if none; of those
// named, or of all, only tensors that have the same bits in every launch.
std::string OutputWatch::changed_of(const Outputs& outputs, std::vector<std::string> names) const {
  if (has_fixed_order()) return outputs.changed(names);
  if (names.empty()) names = {"o", "lse"};
  std::erase_if(names, [](const std::string& name) { return name != "o" && name != "lse"; });
  return names.empty() || !run_.problem().runs_forward() ? "" : outputs.changed(names);
}

void OutputWatch::judge(const Outputs& outputs) const {
  if (run_.judge_later) run_.judge_later(outputs);
}

}  // namespace attnlab
