#include "harness/report/paper_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/strict_json.h"
#include "harness/base/suggest.h"
#include "harness/report/claims.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

// Holds a row or column: its name, what it asks of a record, where its published values stand.
struct Line {
  PaperEntry entry;
  const Json* row = nullptr;  // of rows that are published
};

// Returns the rule of a row or column whose name is a field's value.
PaperEntry by_field(const std::string& name, const std::string& field) {
  return {.name = name, .rule = CellRule{.where = {{field, {name}}}}};
}

PaperEntry entry_of(const PaperAxis& axis, const std::string& name, const std::string& where) {
  if (!axis.field.empty()) return by_field(name, axis.field);
  std::vector<std::string> known;
  for (const PaperEntry& entry : axis.entries) {
    if (entry.name == name) return entry;
    known.push_back(entry.name);
  }
  refuse(where, fmt::format("the source has '{}', which select does not name{}", name,
                            suggestion(name, known)));
}

// Throws for an entry that names nothing of the source.
void check_entries(const PaperAxis& axis, const std::vector<Line>& lines,
                   const std::string& where) {
  std::vector<std::string> known;
  for (const Line& line : lines) known.push_back(line.entry.name);
  for (const PaperEntry& entry : axis.entries) {
    if (std::ranges::find(known, entry.name) != known.end()) continue;
    refuse(where, fmt::format("the source has no '{}'{}; what it lacks stands in beside",
                              entry.name, suggestion(entry.name, known)));
  }
}

std::vector<Line> rows_of(const PaperTable& table, const Json& published,
                          const std::string& where) {
  std::vector<Line> rows;
  const Json& printed = published["rows"];
  // Some figures give the bars' own heights, too, beside the rounded labels.
  const Json& precise = published.contains("rows_precise") ? published["rows_precise"] : printed;
  for (std::size_t i = 0; i < printed.size(); ++i) {
    const Json& row = printed[i];
    std::string name;
    for (const std::string& key : table.rows.key) {
      if (!row.contains(key)) {
        refuse(where, fmt::format("rows.key: the source has no column '{}'", key));
      }
      name += fmt::format("{}{}", name.empty() ? "" : ", ", exact(row[key]));
    }
    rows.push_back({entry_of(table.rows, name, where + ".rows"), &precise.at(i)});
  }
  check_entries(table.rows, rows, where + ".rows");
  for (const PaperEntry& entry : table.rows.beside) rows.push_back({entry});
  return rows;
}

// Returns the columns of the source beside those that name rows. Where a field says which they are,
// columns that are no number hold words about the row.
std::vector<Line> columns_of(const PaperTable& table, const Json& published,
                             const std::string& where) {
  std::vector<Line> columns;
  for (const Json& column : published["columns"]) {
    const std::string name = exact(column);
    const bool is_number = name.find_first_not_of("0123456789.") == std::string::npos;
    if (std::ranges::find(table.rows.key, name) != table.rows.key.end()) continue;
    if (!table.columns.field.empty() && !is_number) continue;
    columns.push_back({entry_of(table.columns, name, where + ".columns")});
  }
  check_entries(table.columns, columns, where + ".columns");
  for (const PaperEntry& entry : table.columns.beside) columns.push_back({entry});
  return columns;
}

// Says what a cell asks for: the column's word counts where row and column both have one.
struct Asked {
  Conditions where;
  std::optional<Conditions> over;
  std::string value;
  double scale = 1.0;
};

void add(Conditions& conditions, const Conditions& more) {
  conditions.insert(conditions.end(), more.begin(), more.end());
}

Asked asked_of(const PaperTable& table, const CellRule& row, const CellRule& column) {
  Asked asked{.where = table.where, .value = table.value, .scale = row.scale * column.scale};
  for (const CellRule* rule : {&row, &column}) {
    add(asked.where, rule->where);
    if (!rule->value.empty()) asked.value = rule->value;
  }
  for (const CellRule* rule : {&row, &column}) {
    if (rule->over) asked.over = merged(asked.over ? *asked.over : asked.where, *rule->over);
  }
  return asked;
}

// Holds a number of a record and its interval, or why there is none.
struct Number {
  std::optional<double> value, interval;
  std::string trouble, record;
};

Number number_of(const std::vector<Json>& records, const Conditions& where,
                 const std::string& value) {
  const Found found = find_record(records, where);
  if (found.record == nullptr) return {.trouble = found.trouble};
  Number number{.record = exact(at(*found.record, {"key"}))};
  if (const std::string status = exact(at(*found.record, {"status"})); status != "ok") {
    number.trouble = status == "out_of_memory" ? "out of memory" : status;
    // The file's own words alone say why a point was left out.
    const Json reason = at(*found.record, {"reason"});
    if (status == "skipped" && reason.is_string()) number.trouble += ": " + exact(reason);
    return number;
  }
  const Field& field = find_field(value, "value");
  const Json read = field.read(*found.record);
  if (!read.is_number()) {
    number.trouble = fmt::format("its record has no {}", value);
    return number;
  }
  number.value = read.get<double>();
  number.trouble = unfit(*found.record, field);
  if (!field.interval) return number;
  const Json interval = field.interval(*found.record);
  if (interval.is_number()) number.interval = interval.get<double>();
  return number;
}

void measure(PaperCell& cell, const Asked& asked, const std::vector<Json>& records) {
  const Number own = number_of(records, asked.where, asked.value);
  cell.record = own.record;
  cell.trouble = own.trouble;
  cell.measured = own.value;
  cell.interval_percent = own.interval;
  cell.is_timed = find_field(asked.value, "value").interval != nullptr;
  if (asked.over) {
    const Number other = number_of(records, *asked.over, asked.value);
    if (cell.trouble.empty()) cell.trouble = other.trouble;
    cell.lacks_other = other.record.empty();
    cell.measured.reset();
    if (own.value && other.value) cell.measured = *other.value / *own.value;
    if (own.interval && other.interval) {
      cell.interval_percent = *own.interval + *other.interval;
    } else {
      cell.interval_percent.reset();
    }
  }
  if (cell.measured) *cell.measured *= asked.scale;
  if (!cell.measured || !cell.published.is_number()) return;
  const double published = cell.published.get<double>();
  if (published != 0.0) cell.ratio = *cell.measured / published;
}

}  // namespace

std::vector<PaperCell> cells_of(const PaperTable& table, const PublishedTable& published,
                                const std::vector<Json>& records, const std::string& where) {
  std::vector<PaperCell> cells;
  const std::vector<Line> columns = columns_of(table, published.json, where);
  for (const Line& row : rows_of(table, published.json, where)) {
    for (const Line& column : columns) {
      PaperCell cell{.row = row.entry.name, .column = column.entry.name};
      const bool is_published = row.row != nullptr && row.row->contains(column.entry.name);
      if (is_published) cell.published = (*row.row)[column.entry.name];
      if (!row.entry.rule || !column.entry.rule) {
        cell.is_measurable = false;
        cell.trouble = row.entry.rule ? column.entry.reason : row.entry.reason;
      } else {
        measure(cell, asked_of(table, *row.entry.rule, *column.entry.rule), records);
      }
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

void add_readings(std::vector<PaperCell>& cells, const std::string& protocol,
                  const std::vector<PaperCell>& others) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const PaperCell& other = others.at(i);
    if (!cells[i].is_timed) continue;
    cells[i].by_protocol.push_back({protocol, other.measured, other.trouble, other.record});
  }
}

std::optional<Span> span_of(const PaperCell& cell) {
  if (cell.by_protocol.empty()) return std::nullopt;
  std::vector<double> values;
  std::string lacks;
  if (cell.measured && cell.trouble.empty()) values.push_back(*cell.measured);
  for (const ProtocolReading& reading : cell.by_protocol) {
    if (reading.measured && reading.trouble.empty()) {
      values.push_back(*reading.measured);
    } else if (!reading.record.empty()) {
      lacks += fmt::format("{}{}: {}", lacks.empty() ? "without " : ", ", reading.protocol,
                           reading.trouble);
    }
  }
  if (values.empty()) return std::nullopt;
  const auto [least, most] = std::ranges::minmax(values);
  return Span{least, most, lacks};
}

}  // namespace attnlab
