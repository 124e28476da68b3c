// Finds what differs between two records of a point beside its time, by more than the values of
// equal kernels do.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/field.h"

namespace attnlab {

// Lists what a point can be judged by.
enum class Judged : std::uint8_t {
  time,
  errors,
  bytes,
  memory,
  registers,
  spills,
  shared,
  kernels,  // launches beyond what the operation needs
};
const char* to_string(Judged judged);
std::vector<Judged> all_judged();
// Reads a list of these words. Throws UsageError, led by `where`.
std::vector<Judged> parse_judged(const std::vector<std::string>& words, const std::string& where);

enum class ValueVerdict : std::uint8_t {
  less,
  worse,  // more
  other,  // more, less or nothing, of another config, which takes what it takes
  gone,   // only the base has it, so nobody can tell
};
const char* to_string(ValueVerdict verdict);

struct ValueChange {
  Judged judged = Judged::errors;
  std::string what;  // "rel_fro of dq", "registers of backward"
  std::optional<double> base, now;
  ValueVerdict verdict = ValueVerdict::less;
};

// Relative errors and bytes may differ by 1 %: sums in any order end in other bits. Peak memory,
// registers, spills and shared memory are exact. Bytes of dram and joules are not compared: they
// vary between equal runs by more than a change would. Launches beyond what the operation needs are
// exact, by name, and compared where somebody saw both sides' kernels.
std::vector<ValueChange> value_changes(const RecordJson& base, const RecordJson& now);

}  // namespace attnlab
