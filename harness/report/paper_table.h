// Puts what was measured beside the cells of a published table.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/paper_file.h"
#include "harness/report/published.h"

namespace attnlab {

// Holds a cell's value as another protocol than the table's own measured it.
struct ProtocolReading {
  std::string protocol;
  std::optional<double> measured;
  std::string trouble, record;  // as a cell's
};

struct PaperCell {
  std::string row, column;
  bool is_measurable = true;               // no: the file says why, see trouble
  nlohmann::ordered_json published;        // a number, the source's word ("OOM", "-"), or null
  std::optional<double> measured;          // in the source's unit
  std::optional<double> interval_percent;  // half the 95 % interval of the median behind it
  std::optional<double> ratio;             // measured / published, where both are numbers
  std::string trouble;                     // why nothing was measured
  bool lacks_other = false;  // of a ratio: nothing was recorded of the side that is divided
  std::string record;        // the key of the record behind it; "": there is none
  bool is_timed = false;     // its value comes from a time, which a protocol moves
  std::vector<ProtocolReading> by_protocol;
};

// Holds the least and the most that a cell is over all protocols.
struct Span {
  double least = 0.0, most = 0.0;
  std::string lacks;  // the protocols that have a record and no value that counts, with the reason
};

// Adds to each cell that comes from a time what `others`, the same cells, are by the protocol.
void add_readings(std::vector<PaperCell>& cells, const std::string& protocol,
                  const std::vector<PaperCell>& others);

// Returns the span of a cell with readings; none where no protocol has a value without trouble.
std::optional<Span> span_of(const PaperCell& cell);

// Returns the cells in the order of the published table, row by row, and then what stands beside
// it. Throws UsageError, led by `where`, for a row or column of the source that the file does not
// name, and for one that the source does not have.
std::vector<PaperCell> cells_of(const PaperTable& table, const PublishedTable& published,
                                const std::vector<nlohmann::ordered_json>& records,
                                const std::string& where);

}  // namespace attnlab
