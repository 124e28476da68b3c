#include "harness/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/base/output.h"
#include "harness/base/page.h"

namespace attnlab {

namespace {

constexpr std::chrono::milliseconds kRedrawInterval(100);
constexpr int kBarWidth = 12;
// The first launches say little of the rest: no time left is shown below this share.
constexpr double kLeastShare = 0.01;

// Returns the columns to draw in. The last stays free: some terminals wrap once it is filled.
std::size_t usable_columns(std::FILE* stream) {
  return std::min(columns_of(stream).value_or(kPageWidth), kPageWidth) - 1;
}

}  // namespace

std::string time_text(double seconds) {
  const auto whole = static_cast<long>(std::ceil(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

Progress::Progress(std::FILE* stream, double total_weight, Clock now)
    : stream_(stream),
      terminal_(isatty(fileno(stream)) == 1),
      total_(total_weight),
      now_(std::move(now)),
      start_(now_()) {}

Progress::~Progress() { finish(); }

void Progress::begin(const std::string& what) {
  ++begun_;
  what_ = what;
  phase_.clear();
  if (terminal_) {
    draw(Draw::now);
  } else {
    print_to(stream_, "{}  {}\n", status(), what_);
    std::fflush(stream_);
  }
}

void Progress::phase(const std::string& what) {
  phase_ = what;
  draw(Draw::if_due);
}

void Progress::advance(double weight) {
  done_ += weight;
  draw(Draw::if_due);
}

void Progress::leave_out(double weight, const std::string& what) {
  total_ -= weight;
  what_ = what;
  draw(Draw::now);
}

void Progress::line(const std::string& text) {
  clear();
  print_to(stream_, "{}\n", text);
  std::fflush(stream_);
}

void Progress::finish() { clear(); }

double Progress::share_done() const {
  // A sum of shares may end a rounding error below the whole, which still counts as done.
  return done_ < total_ * (1.0 - 1e-9) ? done_ / total_ : 1.0;
}

// Returns percent and time left, from the weight that is done.
std::string Progress::status() const {
  const double share = share_done();
  const double elapsed = std::chrono::duration<double>(now_() - start_).count();
  const std::string left =
      share >= kLeastShare ? time_text(elapsed / share * (1.0 - share)) : "-:--";
  return fmt::format("{:3.0f}%  {} left", std::floor(100.0 * share), left);
}

void Progress::draw(Draw when) {
  const Time now = now_();
  if (!terminal_ || (when == Draw::if_due && now - last_draw_ < kRedrawInterval)) return;
  last_draw_ = now;
  const int filled = static_cast<int>(share_done() * kBarWidth);
  // The phase stands before what began, whose name is long and may be cut.
  const std::string text =
      fmt::format("[{:#>{}}{:->{}}] {}  {} done  {}{}{}", "", filled, "", kBarWidth - filled,
                  status(), begun_ - 1, phase_, phase_.empty() ? "" : "  ", what_);
  print_to(stream_, "\r{}\x1b[K", text.substr(0, usable_columns(stream_)));
  std::fflush(stream_);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stream_);
  std::fflush(stream_);
  drawn_ = false;
}

}  // namespace attnlab
