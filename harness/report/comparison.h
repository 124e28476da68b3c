// Compares two sets of records of the same points: what became slower, larger or less exact, what
// cannot be told, and what has no partner.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/pairing.h"
#include "harness/report/time_change.h"
#include "harness/report/value_changes.h"

namespace attnlab {

struct CompareOptions {
  // A smaller change of time, as a share of the base's, does not count. Times of equal kernels have
  // differed by 5 % between machines and minutes.
  double threshold = 0.05;
  // Gives, if set, the threshold for a record of the base, in place of `threshold`.
  std::function<double(const RecordJson&)> threshold_of;
  bool across = false;      // also other devices, drivers and protocols
  bool any_rounds = false;  // sides may have other numbers of samples
  // Says that the base was stored: then a limit of power that it does not name, and another
  // compiler of kernels, count as differences, too.
  bool base_is_stored = false;
  std::vector<Judged> fail_on = all_judged();  // what can make a point worse or ambiguous
};

// Says what became of a point that both sides have.
struct PointChange {
  std::string key;
  const RecordJson* record = nullptr;  // of the base, which compare() was given
  std::string config;               // what its kernel itself chose otherwise: "block_m 128 -> 64"
  std::string trouble;              // why it was not compared, or not in time; "" if it was
  std::string base_status, status;  // "ok", "invalid", ...
  bool measured = true;   // now; or failed, or on neither side for a reason of the point itself
  bool compared = false;  // in time or another value
  std::optional<TimeChange> time;  // empty: a side has none
  std::vector<ValueChange> values;
};

struct Comparison {
  std::vector<PointChange> points;       // worst first
  Pairing pairing;                       // what has no partner; its pairs are the points
  std::vector<std::string> failed;       // keys of the new side that fail their verification
  std::vector<std::string> differences;  // of device and protocol, with `across`
  std::vector<std::string> notes;        // other compilers and libraries, which may explain changes
};

// Reads nothing but the records, of which both sides have at least one, and which must outlive the
// result. Throws UsageError where devices, drivers or protocols differ and `across` is not set, and
// for a record that lacks what every record has.
Comparison compare(const std::vector<RecordJson>& base, const std::vector<RecordJson>& now,
                   const CompareOptions& options);

// Returns whether it is slower or has a value that is worse, of what `fail_on` names.
bool is_worse(const PointChange& point, const std::vector<Judged>& fail_on);

// Returns whether both sides were verified and timed, or the base says that it cannot run the
// point, which no change has made worse.
bool is_judged(const PointChange& point);

// Returns whether nobody can tell what became of it, of what `fail_on` names.
bool is_ambiguous(const PointChange& point, const std::vector<Judged>& fail_on);

// Returns the first of: 1 a point of the new side fails its verification; 3 a point of both sides
// was not measured, one that only the new side has is invalid, or nothing could be compared; 5
// `across`; 4 a point is worse; 5 one is ambiguous, missing or there twice; 0.
int exit_code(const Comparison& comparison, const CompareOptions& options);

}  // namespace attnlab
