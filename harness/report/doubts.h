// Says beside a time what makes it less firm than its digits look, and its result less sure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/report/fields.h"
#include "harness/report/sampling.h"

namespace attnlab {

// Collects what the cells of a table need said below it.
class Doubts {
 public:
  // Returns the values of one point as people read them. A number is marked if it comes from a time
  // whose clock did not settle, or whose median has a 95 % interval of more than 2 % to a side, or
  // none; the first that comes from a median says "(4 of 30)" where a limit ended the timing after
  // 4 of 30 rounds.
  std::vector<TextCell> cells(const std::vector<const Field*>& values, const RecordJson& record);

  // Returns what the marks mean and what to do, "" where there are none.
  std::string text() const;

 private:
  void count(const RecordJson& record);
  // Counts the points that were not compared whole.
  struct Partial {
    std::size_t points = 0;
    Sampled least;  // of the one of which least was compared

    void count(const std::optional<Sampled>& sampled);
  };

  void count_partial(const RecordJson& record);

  std::size_t timed_ = 0;  // points
  int unsettled_ = 0;
  std::size_t retried_ = 0;  // points
  double retries_ = 0;       // of all
  bool is_unsettled_ = false;
  bool is_marked_ = false;
  double widest_ = 0.0;  // percent, of the intervals that are known
  bool is_short_ = false;
  std::size_t shown_ = 0;     // points
  std::size_t drifting_ = 0;  // points
  double drift_ = 0.0;        // the widest of their bounds
  Partial sampled_, drawn_;
};

}  // namespace attnlab
