#include "harness/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "harness/base/errors.h"
#include "harness/base/suggest.h"
#include "harness/base/text_table.h"
#include "harness/record/beyond.h"
#include "harness/record/record.h"
#include "harness/record/record_json.h"
#include "harness/report/best_layout.h"
#include "harness/report/doubts.h"
#include "harness/report/fields.h"
#include "harness/report/pivot.h"

namespace attnlab {
namespace {

using Records = std::vector<RecordJson>;

// Returns "v2 64x64"; numbers carry the field's name: "head_dim=64".
std::string column_label(const std::vector<const Field*>& cols, const FieldValues& key) {
  std::string label;
  for (std::size_t i = 0; i < cols.size(); ++i) {
    if (key[i].is_null()) continue;
    const std::string text = exact(key[i]);
    label += (label.empty() ? "" : " ") +
             (key[i].is_string() ? text : fmt::format("{}={}", cols[i]->name, text));
  }
  return label;
}

bool is_text(const Field& field, const std::vector<FieldValues>& keys, std::size_t place) {
  return field.kind != FieldKind::measure &&
         std::any_of(keys.begin(), keys.end(),
                     [&](const FieldValues& key) { return key[place].is_string(); });
}

std::string status_of(const RecordJson& record) { return exact(at(record, {"status"})); }

// Returns "failed [2]"; a cell of one column is too narrow for "unsupported".
std::string status_cell(const RecordJson& record, std::size_t span, Footnotes& footnotes) {
  std::string word = status_of(record);
  if (word == "out_of_memory") word = "oom";
  if (word == "unsupported" && span == 1) word = "n/a";
  return footnotes.mark(word, exact(at(record, {"reason"})));
}

// Returns why a time holds more than the operation; "" if nothing else ran, or nobody saw.
std::string beyond_note(const RecordJson& record) {
  const std::string kernels = exact(find_field("beyond", "").read(record));
  if (kernels.empty()) return "";
  return fmt::format(
      "{} ran what its operation does not need, and its time holds it: {} (--value beyond_percent "
      "shows the share, where it is known)",
      exact(at(record, {"kernel"})), kernels);
}

// Returns the title, which names the base of a speedup if one was asked for.
std::string title_of(const Field& field, const TableOptions& options) {
  const bool names_base = is_speedup(field) && !options.speedup_over.empty();
  return names_base ? "over " + options.speedup_over : field.title;
}

// Returns whether a default table can leave the column out: a kernel is no faster than itself, and
// what is not of e4m3 is not quantised.
bool says_nothing(const Pivot& pivot, std::size_t col, const Field& value) {
  if (!is_speedup(value) && value.name != std::string_view(kQuantiseField)) return false;
  for (std::size_t row = 0; row < pivot.row_keys.size(); ++row) {
    const auto cell = pivot.cells.find({row, col});
    if (cell == pivot.cells.end()) continue;
    const RecordJson number = value.read(*cell->second);
    if (number.is_number() && !(is_speedup(value) && number == 1.0)) return false;
  }
  return true;
}

// Collects what stands below a table for people.
struct Notes {
  Footnotes reasons;
  Doubts doubts;

  std::string text() const { return reasons.text() + doubts.text(); }
};

// Makes the table: with `notes`, numbers are rounded for people; without, they are exact.
TextTable make_table(const Pivot& pivot, const TableOptions& options, Notes* notes) {
  const auto text_of = [&](const Field& field, const RecordJson& value) {
    return notes != nullptr ? display(field, value) : exact(value);
  };
  const auto cells_of = [&](const std::vector<const Field*>& values, const RecordJson& record) {
    if (notes != nullptr) return notes->doubts.cells(values, record);
    std::vector<TextCell> cells;
    for (const Field* value : values) cells.push_back({exact(value->read(record))});
    return cells;
  };
  TextTable table;
  for (std::size_t i = 0; i < pivot.rows.size(); ++i) {
    const Field& field = *pivot.rows[i];
    table.columns.push_back(
        {.title = field.name, .left = is_text(field, pivot.row_keys, i), .key = true});
  }
  std::vector<std::vector<const Field*>> shown(pivot.col_keys.size());  // values of each column
  for (std::size_t col = 0; col < pivot.col_keys.size(); ++col) {
    const std::string label = column_label(pivot.cols, pivot.col_keys[col]);
    for (const Field* value : pivot.values) {
      const bool several = pivot.col_keys.size() > 1;
      if (options.values.empty() && several && says_nothing(pivot, col, *value)) continue;
      shown[col].push_back(value);
      table.columns.push_back({.group = label, .title = title_of(*value, options)});
    }
  }
  for (std::size_t row = 0; row < pivot.row_keys.size(); ++row) {
    std::vector<TextCell> cells;
    for (std::size_t i = 0; i < pivot.rows.size(); ++i) {
      cells.push_back({text_of(*pivot.rows[i], pivot.row_keys[row][i])});
    }
    for (std::size_t col = 0; col < pivot.col_keys.size(); ++col) {
      const auto found = pivot.cells.find({row, col});
      const std::size_t span = shown[col].size();
      if (found != pivot.cells.end() && status_of(*found->second) == "ok") {
        std::vector<TextCell> values = cells_of(shown[col], *found->second);
        if (notes != nullptr && !values.empty()) {
          std::string& first = values.front().text;
          first = notes->reasons.mark(first, beyond_note(*found->second));
        }
        std::ranges::move(values, std::back_inserter(cells));
        continue;
      }
      std::string status;
      if (found != pivot.cells.end()) {
        const RecordJson& record = *found->second;
        status = notes != nullptr ? status_cell(record, span, notes->reasons) : status_of(record);
      }
      cells.push_back({status, span});
      cells.resize(cells.size() + span - 1);
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

bool in(const std::vector<const Field*>& fields, const Field& field) {
  return std::find(fields.begin(), fields.end(), &field) != fields.end();
}

// Says what is the same on all points: first the problem, then who ran it where.
std::string caption(const Pivot& pivot, const Records& records) {
  const auto constants = [&](const std::vector<const Field*>& candidates) {
    std::vector<std::string> parts;
    for (const Field* field : candidates) {
      if (in(pivot.rows, *field) || in(pivot.cols, *field) || !is_constant(*field, records)) {
        continue;
      }
      const RecordJson value = field->read(records.front());
      const std::string text = value.is_null() ? "" : exact(value);
      if (!text.empty()) parts.push_back(fmt::format("{} {},", field->name, text));
    }
    if (!parts.empty()) parts.back().pop_back();  // the last comma
    return parts;
  };
  std::vector<const Field*> identity;
  for (const char* name : {"kernel", "config", "backend", "device", "isa", "threads", "commit"}) {
    identity.push_back(&find_field(name, ""));
  }
  std::string text;
  for (const auto& parts : {constants(problem_axes(records)), constants(identity)}) {
    if (!parts.empty()) text += fill(parts, 2);
  }
  return text;
}

// Counts the points by status, and names the largest error among them.
std::string summary(const Records& records) {
  const RecordJson* worst = nullptr;
  const Field& ratio = find_field("ratio_to_twin", "");
  const Field& block = find_field("block", "");
  for (const RecordJson& record : records) {
    const RecordJson value = ratio.read(record);
    if (!value.is_number()) continue;
    if (worst == nullptr || ratio.read(*worst).get<double>() < value.get<double>()) worst = &record;
  }
  std::string text = count_of(records.size(), "point") + ":";
  for (const Status status : {Status::ok, Status::failed, Status::invalid, Status::unsupported,
                              Status::out_of_memory, Status::skipped}) {
    const auto count = std::count_if(records.begin(), records.end(), [&](const RecordJson& record) {
      return status_of(record) == to_string(status);
    });
    if (count > 0) text += fmt::format(" {} {},", count, to_string(status));
  }
  text.back() = '.';
  if (worst != nullptr) {
    const std::string tile = exact(block.read(*worst));
    text += fmt::format(
        " Largest error: {} times that of a materialized computation ({} of {}{}{} on {}).",
        display(ratio, ratio.read(*worst)), exact(find_field("worst_tensor", "").read(*worst)),
        exact(at(*worst, {"kernel"})), tile.empty() ? "" : " ", tile, exact(at(*worst, {"id"})));
  }
  return wrap(text);
}

// Keeps the last record of each point.
Records without_replaced(const Pivot& pivot, const Records& records) {
  Records kept;
  for (const RecordJson& record : records) {
    const bool stands = std::any_of(pivot.cells.begin(), pivot.cells.end(),
                                    [&](const auto& cell) { return cell.second == &record; });
    if (stands) kept.push_back(record);
  }
  return kept;
}

// Says that the base that was asked for has no time: then no column can say so.
std::string missing_speedups(const Records& records, const TableOptions& options) {
  const bool any = std::any_of(records.begin(), records.end(), [](const RecordJson& record) {
    return at(record, {kSpeedupKey, "ratio"}).is_number();
  });
  if (any || options.speedup_over.empty()) return "";
  return wrap(
      fmt::format("No speedup over {}: it has no time on these cases.", options.speedup_over));
}

// Warns where the points are of several runs, whose times were not taken side by side. Older
// records tell their commit only.
std::string several_runs(const Records& records) {
  std::set<std::string> runs, commits;
  for (const RecordJson& record : records) {
    const std::string commit = exact(at(record, {"build", "commit"}));
    const RecordJson run = at(record, {"run"});
    commits.insert(commit);
    runs.insert(run.is_string() ? exact(run) : "of " + commit);
  }
  if (runs.size() < 2) return "";
  const std::string of_commits =
      commits.size() > 1 ? fmt::format(" of {} commits", commits.size()) : "";
  return wrap(
      fmt::format("The points are of {} runs{}: times of different runs were not taken "
                  "side by side.",
                  runs.size(), of_commits));
}

// Says what the peers compute: a comparison must tell if that is more or less than ours.
std::string what_peers_compute(const Records& records, const TableOptions& options) {
  std::set<std::string> said;
  std::string text;
  bool of_torch = false, of_e4m3 = false;
  for (const RecordJson& record : records) {
    const std::string computes = computed_by_peer_of(record);
    const std::string kernel = exact(at(record, {"kernel"}));
    if (computes.empty() || status_of(record) != "ok") continue;
    of_e4m3 = of_e4m3 || at(record, {"problem", "dtype"}) == "e4m3";
    if (!said.insert(kernel).second) continue;
    text += wrap(fmt::format("{}: {}.", kernel, computes), 2);
    of_torch = of_torch || kernel.starts_with("torch:");
  }
  if (text.empty()) return "";
  const bool shows_peaks = std::ranges::find(options.values, "peak_mib") != options.values.end();
  std::string inputs =
      of_torch ? "PyTorch gets tensors in the point's type and layout (bshd as transposed views), "
                 "and draws dropout masks of its own."
               : "Peers get tensors in the point's type and layout, as transposed views where they "
                 "want dimensions in another order.";
  if (of_e4m3) {
    inputs +=
        " Of e4m3 they get V as it lies: if they transpose it, that is in their time; of kernels "
        "that get it transposed it is in the time of quantisation (--value quantise_ms).";
  }
  return text +
         wrap(inputs + (shows_peaks ? " Its peak MiB is its allocator's, and its inputs." : ""));
}

std::string render_text(const Records& records, const TableOptions& options) {
  const bool markdown = options.format == TableFormat::markdown;
  // A layout or speedup that was asked for stays, next to the time.
  const std::size_t least_values =
      1 + (options.best_layout ? 1 : 0) + (options.speedup_over.empty() ? 0 : 1);
  Notes notes;
  Pivot pivot = make_pivot(records, options);
  const auto lay_out = [&] {
    notes = {};
    return make_table(pivot, options, &notes);
  };
  TextTable table = lay_out();
  if (!markdown && options.rows.empty() && options.cols.empty()) {
    // If many kernels do not fit, only the time stays for each; --value shows the rest.
    while (width(table) > page_width() && options.values.empty() &&
           pivot.values.size() > least_values) {
      pivot.values.pop_back();
      table = lay_out();
    }
    if (width(table) > page_width()) {
      pivot = make_pivot(records, columns_as_rows(pivot, options));
      table = lay_out();
    }
  }
  std::string text = markdown ? render_markdown(table) : render_plain(table);
  const Records kept = without_replaced(pivot, records);
  const std::string lead = caption(pivot, kept);
  text = lead + (lead.empty() ? "" : "\n") + text + "\n" + notes.text() +
         what_peers_compute(kept, options) + best_layout_note(kept) +
         missing_speedups(records, options) + several_runs(kept) + summary(kept);
  if (pivot.replaced > 0) {
    text += wrap(count_of(pivot.replaced, "earlier record") +
                 " of the same points left out: the last one counts.");
  }
  return text;
}

// Returns the fields of a long table: who and what, then the values (all measures by default).
std::vector<const Field*> long_fields(const TableOptions& options) {
  std::vector<const Field*> chosen;
  for (const Field& field : fields()) {
    const bool measure = field.kind == FieldKind::measure;
    if (!measure || options.values.empty()) chosen.push_back(&field);
  }
  std::vector<std::string> names = options.values;
  if (!options.speedup_over.empty()) names.emplace_back("speedup_over");
  for (const std::string& name : names) {
    const Field& field = find_field(name, "--value");
    if (!in(chosen, field)) chosen.push_back(&field);
  }
  return chosen;
}

std::string render_long_csv(const Records& records, const TableOptions& options) {
  TextTable table;
  const auto chosen = long_fields(options);
  for (const Field* field : chosen) table.columns.push_back({.title = field->name});
  for (const RecordJson& record : last_of_each_point(records)) {
    std::vector<TextCell> row;
    for (const Field* field : chosen) row.push_back({exact(field->read(record))});
    table.rows.push_back(std::move(row));
  }
  return render_csv(table);
}

std::string render_long_json(const Records& records, const TableOptions& options) {
  RecordJson array = RecordJson::array();
  for (const RecordJson& record : last_of_each_point(records)) {
    RecordJson object;
    for (const Field* field : long_fields(options)) object[field->name] = field->read(record);
    array.push_back(std::move(object));
  }
  return array.dump(1) + "\n";
}

// Renders an array of rows: {"seqlen": 512, ..., "cells": [{"kernel": "v2", ..., "time_ms"}]}.
std::string render_pivot_json(const Records& records, const TableOptions& options) {
  const Pivot pivot = make_pivot(records, options);
  RecordJson array = RecordJson::array();
  for (std::size_t row = 0; row < pivot.row_keys.size(); ++row) {
    RecordJson object;
    for (std::size_t i = 0; i < pivot.rows.size(); ++i) {
      object[pivot.rows[i]->name] = pivot.row_keys[row][i];
    }
    object["cells"] = RecordJson::array();
    for (std::size_t col = 0; col < pivot.col_keys.size(); ++col) {
      const auto found = pivot.cells.find({row, col});
      if (found == pivot.cells.end()) continue;
      RecordJson cell;
      for (std::size_t i = 0; i < pivot.cols.size(); ++i) {
        cell[pivot.cols[i]->name] = pivot.col_keys[col][i];
      }
      for (const char* key : {"status", "reason"}) cell[key] = at(*found->second, {key});
      for (const Field* value : pivot.values) cell[value->name] = value->read(*found->second);
      if (!options.speedup_over.empty()) cell["speedup_over"] = options.speedup_over;
      object["cells"].push_back(std::move(cell));
    }
    array.push_back(std::move(object));
  }
  return array.dump(1) + "\n";
}

std::string render_pivot_csv(const Records& records, const TableOptions& options) {
  return render_csv(make_table(make_pivot(records, options), options, nullptr));
}

Records select(const Records& records, const TableOptions& options) {
  Records all = options.best_layout ? keep_best_layouts(records) : records;
  if (options.speedup_over.empty()) {
    add_speedups(all, "naive");
  } else {
    std::vector<std::string> kernels;
    for (const RecordJson& record : records) kernels.push_back(exact(at(record, {"kernel"})));
    check_speedup_base(options.speedup_over, kernels);
    add_speedups(all, options.speedup_over);
  }
  return choose(std::move(all), options.where);
}

}  // namespace

void check_speedup_base(const std::string& base, const std::vector<std::string>& kernels) {
  if (std::ranges::find(kernels, base) != kernels.end()) return;
  const std::set<std::string> names(kernels.begin(), kernels.end());
  throw UsageError(fmt::format("--speedup-over: '{}' is none of the kernels and peers here{}", base,
                               suggestion(base, {names.begin(), names.end()})));
}

std::string render_table(const std::vector<nlohmann::ordered_json>& records,
                         const TableOptions& options) {
  const Records selected = select(records, options);
  const bool pivoted = !options.rows.empty() || !options.cols.empty();
  switch (options.format) {
    case TableFormat::csv:
      return pivoted && !selected.empty() ? render_pivot_csv(selected, options)
                                          : render_long_csv(selected, options);
    case TableFormat::json:
      return pivoted && !selected.empty() ? render_pivot_json(selected, options)
                                          : render_long_json(selected, options);
    case TableFormat::table:
    case TableFormat::markdown: break;
  }
  return selected.empty() ? "no records\n" : render_text(selected, options);
}

}  // namespace attnlab
