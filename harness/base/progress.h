// Shows a user how far a sweep is: by a bar with the time left on a terminal, by plain lines
// elsewhere.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

namespace attnlab {

// Returns "1:05", or "2:00:00" from an hour on; parts of a second count as one.
std::string time_text(double seconds);

class Progress {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Clock = std::function<Time()>;

  // Takes in `total_weight` the sum of what will be reported to advance(); weights are estimates of
  // cost (multiply-adds, say), so that the time left is fair when sizes differ. `now` reads the
  // clock.
  Progress(std::FILE* stream, double total_weight, Clock now = std::chrono::steady_clock::now);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void begin(const std::string& what);  // what starts now (a case, say); always seen
  void phase(const std::string& what);  // what it is doing: verify, time (round 3/9), ...
  void advance(double weight);          // that much of the total is done
  // Takes that much off what has to be done, and says that `what` is left out.
  void leave_out(double weight, const std::string& what);
  void line(const std::string& text);  // a line that stays (a failure, a warning)
  void finish();

 private:
  enum class Draw { now, if_due };
  void draw(Draw when);
  void clear();
  double share_done() const;
  std::string status() const;

  std::FILE* stream_;
  bool terminal_;
  double total_;
  double done_ = 0.0;
  int begun_ = 0;       // calls of begin()
  bool drawn_ = false;  // a bar stands on the terminal's current line
  std::string what_, phase_;
  Clock now_;
  Time start_, last_draw_;
};

}  // namespace attnlab
