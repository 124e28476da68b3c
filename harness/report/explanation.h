// Says what binds a point, in a screenful: the share of each limiter with its number, what the
// schedule and the counters say, what the neighbouring tiles would ask for, and what to try next.
// It is made of a record and the kernels' own schedules alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/report/limiters.h"
#include "harness/report/tile_facts.h"

namespace attnlab {

inline constexpr const char* kExplanationSchema = "attnlab.explanation/1";

// Holds a number that advice rests on, as it stands in the sentence.
struct Cited {
  std::string source;  // a path of the record, "share of L2", or "bytes of block_n 112"
  double value = 0.0;
  std::string shown;
};

struct Advice {
  std::string sentence;
  std::vector<Cited> cited;  // never empty
  std::string command;       // may be empty
};

// Holds what the schedule counts, what the hardware counted and what was compiled.
struct Counts {
  std::optional<double> executed_flops, useful_flops;
  std::optional<double> compulsory_bytes, requested_bytes, l2_bytes, dram_bytes;
  std::optional<double> full_tiles, partial_tiles, empty_tiles;
  std::optional<double> threads, registers, shared_bytes, blocks_per_multiprocessor;
  std::optional<double> spill_bytes;       // of a thread
  std::optional<double> counted_clock_hz;  // while the hardware counted
};

struct Explanation {
  std::string id, kernel, config, device, state;  // state: "settled, hot"
  std::string status, reason;
  bool is_measured = false;
  std::optional<double> seconds;       // the median, or on paper the longest of the bounds
  std::vector<LimiterShare> findings;  // as find_limiters() has them
  Counts counts;
  Waves waves;
  TileFacts tiles;
  std::optional<Advice> next;  // empty: no number speaks for anything

  // Returns what binds first, null if nothing does.
  const LimiterShare* limiter() const;
};

// `peaks` are of the record's device, or null. Throws nlohmann::json::exception for a record of
// another form.
Explanation explain(const RecordJson& record, const TileFacts& tiles, const Peaks* peaks);

// Returns nothing where no number speaks for anything.
std::optional<Advice> next_step(const Explanation& explanation, const RecordJson& record);

nlohmann::ordered_json to_json(const Explanation& explanation);
// Says "dram binds: 4.1 of 4.3 TB/s, 95 % of the time", or that nothing does.
std::string headline(const Explanation& explanation);
// Shows one point: as text a screenful, as csv its limiters, as json to_json().
std::string render_explanation(const Explanation& explanation, TableFormat format);
// Shows what binds each of several, one a line, numbered as --point takes it.
std::string render_explanations(const std::vector<Explanation>& explanations, TableFormat format);

}  // namespace attnlab
