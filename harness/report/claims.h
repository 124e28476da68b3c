// Judges what a source claims by the records of an experiment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/field.h"
#include "harness/report/paper_file.h"

namespace attnlab {

// reproduced: it is as the source says. in_shape: the direction is right, the size is not.
// not_applicable: it is about something else than these records. not_run: a record that it needs is
// missing, not ok, did not settle or was sampled.
enum class Finding : std::uint8_t {
  reproduced,
  in_shape,
  not_reproduced,
  not_applicable,
  not_run,
};
// Returns "R", "S", "N", "X", "U".
const char* letter_of(Finding finding);
const char* to_string(Finding finding);

struct Judgement {
  Finding finding = Finding::not_run;
  std::optional<double> measured;
  std::string reason;
};

// Joins the conditions of both; where both name a field, those of `more` count.
Conditions merged(Conditions base, const Conditions& more);

// Holds the one record that fits, or why there is none that may be judged.
struct Found {
  const RecordJson* record = nullptr;
  std::string trouble;
};

// Looks for the record for which all conditions hold. If a point was measured several times, the
// last record counts. Several points that fit are trouble, too: the conditions come from a file.
Found find_record(const std::vector<RecordJson>& records, const Conditions& conditions);

// Says why a value of the record may not be judged; "" where it may. A value that comes from a time
// has to be settled.
std::string unfit(const RecordJson& record, const Field& value);

// Returns every combination of the values, each condition with one of them, in the order of the
// text.
std::vector<Conditions> points_of(const Conditions& where);

// Says in words what must come out: which values, at which points, within which bounds.
std::string expected_result(const Claim& claim);

Judgement judge(const Claim& claim, const std::vector<RecordJson>& records);

}  // namespace attnlab
