// Two sets of records of the same points: what became slower, larger or less exact, what cannot be
// told, and what has no partner. Source of the rule for times: docs/measurement.md.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/statistics.h"

namespace attnlab {

// What a point can be judged by; only what a user asks for makes it worse.
enum class Judged : std::uint8_t { time, errors, bytes, memory, registers, spills, shared };
const char* to_string(Judged judged);
// From a list of these words. Throws UsageError, led by `where`.
std::vector<Judged> parse_judged(const std::vector<std::string>& words, const std::string& where);
std::vector<Judged> all_judged();

struct CompareOptions {
  // A change of time that is smaller is none: a share of the base's time. Empty: 1 % within a run,
  // 5 % between runs, by which times of equal kernels differ between machines and minutes.
  std::optional<double> threshold;
  bool across = false;  // compares other devices, drivers and protocols, too
  std::vector<Judged> fail_on = all_judged();
};

enum class TimeVerdict : std::uint8_t { same, faster, slower, ambiguous };
const char* to_string(TimeVerdict verdict);

struct TimeChange {
  TimeVerdict verdict = TimeVerdict::ambiguous;
  std::string reason;                // of what is ambiguous
  double base_s = 0.0, now_s = 0.0;  // medians
  double ratio = 1.0;                // now_s / base_s
  Interval ratio95;
  double p = 1.0;                      // Mann and Whitney's, Holm's adjustment over all points
  std::optional<double> cycles_ratio;  // empty: a side has no clock
};

// A value beside the time that differs by more than those of equal kernels do.
struct ValueChange {
  Judged judged = Judged::errors;
  std::string what;  // "rel_fro of dq", "registers of backward"
  double base = 0.0, now = 0.0;
  bool worse = false;  // more; else less
};

// A point that both sides have.
struct PointChange {
  std::string key;
  const nlohmann::ordered_json* record = nullptr;  // of the base, which compare() was given
  std::string config;              // what its kernel itself chose otherwise: "block_m 128 -> 64"
  std::string trouble;             // why it has nothing to compare; "" if it has
  bool failed = false;             // now it fails its verification
  bool measured = true;            // now, or on neither side for a reason of the point itself
  std::optional<TimeChange> time;  // empty: a side has none
  std::vector<ValueChange> values;
};

struct Comparison {
  std::vector<PointChange> points;       // worst first
  std::vector<std::string> missing;      // keys that only the base has
  std::vector<std::string> extra;        // keys that only the other side has
  std::vector<std::string> duplicates;   // keys that one side has several times: not compared
  std::vector<std::string> differences;  // of device and protocol, with `across`
  double threshold = 0.0;                // that was applied, the largest
};

// Pairs points by problem, kernel, config, inputs, seed, cache and regime; of a kernel that was
// left to choose its config, also where it chose another. Reads nothing but the records. Throws
// UsageError where devices, drivers or protocols differ and `across` is not set; both sides have at
// least one record.
Comparison compare(const std::vector<nlohmann::ordered_json>& base,
                   const std::vector<nlohmann::ordered_json>& now, const CompareOptions& options);

// Whether it is slower or has a value that is worse.
bool is_worse(const PointChange& point, const std::vector<Judged>& fail_on);

// 1 a point fails its verification; 3 a point was not measured, or none has a partner; 5 `across`;
// 4 a point is worse; 5 one is ambiguous, missing or there twice; else 0.
int exit_code(const Comparison& comparison, const CompareOptions& options);

}  // namespace attnlab
