// A field of a table knows its name, where in a record it stands, and how it is printed.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

namespace attnlab {

using RecordJson = nlohmann::ordered_json;

enum class FieldKind {
  axis,      // part of the problem: a candidate for rows
  identity,  // who ran it, where
  measure,   // a number that came out
};

enum class NumberFormat {
  plain,        // as it is
  significant,  // four significant digits, no exponent
  scientific,   // two digits and an exponent
  ratio,        // two decimals
};

struct Field {
  const char* name;
  const char* title;  // above a column; short, with the unit
  const char* unit;
  FieldKind kind;
  NumberFormat format;
  const char* summary;
  // Returns a number, a string, or null where the record has none.
  std::function<RecordJson(const RecordJson& record)> read;
  // Returns half of the 95 % interval of the median time behind the value, in percent of it; of
  // several medians the widest; null if unknown. It is empty where no median is behind a field.
  std::function<RecordJson(const RecordJson& record)> interval = nullptr;
};

// Returns the value at a path of keys, null if any of them is missing.
RecordJson at(const RecordJson& record, const std::vector<const char*>& path);
// Returns the number there; nothing where there is none, or NaN.
std::optional<double> number_at(const RecordJson& record, const std::vector<const char*>& path);
// Returns nothing where one of the two is missing.
std::optional<double> sum(const std::optional<double>& a, const std::optional<double>& b);

}  // namespace attnlab
