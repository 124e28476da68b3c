#include "harness/report/pivot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/errors.h"
#include "harness/plan/builtin_axes.h"
#include "harness/record/record.h"
#include "harness/record/record_json.h"
#include "harness/report/best_layout.h"

namespace attnlab {
namespace {

using Records = std::vector<RecordJson>;
using Fields = std::vector<const Field*>;

bool holds(const Fields& fields, const std::string& name) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const Field* field) { return field->name == name; });
}

Fields find_fields(const std::vector<std::string>& names, const std::string& where) {
  Fields found;
  for (const std::string& name : names) {
    if (holds(found, name)) throw UsageError(fmt::format("{}: '{}' is given twice", where, name));
    found.push_back(&find_field(name, where));
  }
  return found;
}

Fields default_rows(const Records& records, const Fields& cols) {
  const Fields axes = problem_axes(records);
  Fields rows;
  for (const Field* axis : axes) {
    if (!is_constant(*axis, records) && !holds(cols, axis->name)) rows.push_back(axis);
  }
  if (!rows.empty()) return rows;
  for (const Field* axis : axes) {  // a table needs a name for its rows
    const std::string name = axis->name;
    if (name.starts_with("seqlen") && !holds(cols, name)) rows.push_back(axis);
  }
  return rows;
}

// Returns the kernel with its backend: two backends may have kernels of one name.
std::string kernel_of(const RecordJson& record) {
  return exact(at(record, {"backend"})) + " " + exact(at(record, {"kernel"}));
}

// Returns the fields that tell the configs of a kernel apart; the last one always does.
Fields config_fields() {
  Fields found = {&find_field("block", "")};
  for (const SharedAxis& axis : builtin_axes()) found.push_back(&find_field(axis.help.name, ""));
  found.push_back(&find_field("config", ""));
  return found;
}

// Returns config_fields(), read from the config as it was asked for.
Fields asked_fields() {
  static const std::vector<Field> kFields = [] {
    std::vector<Field> asked;
    for (const Field* field : config_fields()) {
      asked.push_back(*field);
      asked.back().read = [field](const RecordJson& record) {
        return field->read(RecordJson{{"config", asked_config(record)}});
      };
    }
    return asked;
  }();
  Fields found;
  for (const Field& field : kFields) found.push_back(&field);
  return found;
}

// Returns whether a kernel that was asked for the same on the same problem chose differently (as on
// another device), at points that `told_apart` does not tell apart.
bool chose_differently(const Records& records, const Fields& told_apart) {
  std::map<std::string, RecordJson> chosen;  // by the point as it was asked for
  return std::any_of(records.begin(), records.end(), [&](const RecordJson& record) {
    if (!at(record, {"config_asked"}).is_object()) return false;  // nothing was left to choose
    std::string key = asked_key(record);
    for (const Field* field : told_apart) key += " " + exact(field->read(record));
    const RecordJson config = at(record, {"config"});
    return chosen.emplace(key, config).first->second != config;
  });
}

// Keeps the fields that have several values for one kernel, and the last one where two configs
// differ in nothing that has a field of its own.
Fields varying_config(const Records& records, Fields fields) {
  const Field* const config = fields.back();
  fields.pop_back();
  Fields varying;
  for (const Field* field : fields) {
    std::map<std::string, std::set<std::string>> values;  // of each kernel
    for (const RecordJson& record : records) {
      values[kernel_of(record)].insert(exact(field->read(record)));
    }
    const bool varies = std::any_of(values.begin(), values.end(),
                                    [](const auto& kernel) { return kernel.second.size() > 1; });
    if (varies) varying.push_back(field);
  }
  std::map<std::string, std::string> config_of;  // by kernel and varying values
  for (const RecordJson& record : records) {
    std::string key = kernel_of(record);
    for (const Field* field : varying) key += " " + exact(field->read(record));
    const std::string text = exact(config->read(record));
    if (config_of.emplace(key, text).first->second != text) return {config};
  }
  return varying;
}

// Adds columns for a kernel's tiles (or other parts of its config) where it was asked for
// several.
void add_varying_config(const Records& records, const Fields& rows, Fields& cols) {
  if (!holds(cols, "kernel") || holds(rows, "config") || holds(cols, "config")) return;
  Fields told_apart = rows;
  told_apart.insert(told_apart.end(), cols.begin(), cols.end());
  const bool by_choice = chose_differently(records, told_apart);
  for (const Field* field : varying_config(records, by_choice ? config_fields() : asked_fields())) {
    if (!holds(rows, field->name) && !holds(cols, field->name)) cols.push_back(field);
  }
}

// Returns whether these fields, as far as they say where something ran, tell all unlike devices
// apart.
bool tell_devices_apart(const Records& records, const Fields& cols, const Fields& rows) {
  Fields places;
  for (const char* name : {"backend", "device", "isa", "threads"}) {
    if (holds(cols, name) || holds(rows, name)) places.push_back(&find_field(name, ""));
  }
  std::map<std::string, std::string> device_of;
  return std::all_of(records.begin(), records.end(), [&](const RecordJson& record) {
    std::string place;
    for (const Field* field : places) place += " " + exact(field->read(record));
    const std::string device = device_key(record);
    return device_of.emplace(place, device).first->second == device;
  });
}

// Adds to the rows what tells unlike devices apart where nothing does yet: their times do not
// stand side by side unless somebody asks for that.
void add_varying_device(const Records& records, const Fields& cols, Fields& rows) {
  for (const char* name : {"device", "isa", "threads"}) {
    if (tell_devices_apart(records, cols, rows)) return;
    const Field& field = find_field(name, "");
    const bool is_there = holds(cols, name) || holds(rows, name);
    if (!is_there && !is_constant(field, records)) rows.push_back(&field);
  }
}

Fields default_cols(const Records& records, const Fields& rows) {
  Fields cols;
  const Field& backend = find_field("backend", "");
  if (!holds(rows, "kernel")) cols.push_back(&find_field("kernel", ""));
  if (!is_constant(backend, records) && !holds(rows, "backend")) cols.push_back(&backend);
  return cols;
}

// Returns time, rate in the unit that suits its size, and speedup where there is something to
// compare with. A narrow page drops the last ones first, but no speedup that was asked for.
Fields default_values(const Records& records, bool wants_speedup) {
  constexpr double kManyGflops = 1e4;
  double most_gflops = 0.0;
  bool has_speedup = false, has_quantise = false;
  const Field& gflops = find_field("gflops", "");
  const Field& quantise = find_field(kQuantiseField, "");
  for (const RecordJson& record : records) {
    const RecordJson rate = gflops.read(record);
    if (rate.is_number()) most_gflops = std::max(most_gflops, rate.get<double>());
    has_speedup |= at(record, {kSpeedupKey, "ratio"}).is_number();
    has_quantise |= quantise.read(record).is_number();
  }
  Fields values = {&find_field("time_ms", ""),
                   &find_field(most_gflops < kManyGflops ? "gflops" : "tflops", "")};
  if (has_speedup) {
    values.insert(wants_speedup ? values.begin() + 1 : values.end(), &find_field("speedup", ""));
  }
  if (are_best_layouts(records)) values.insert(values.begin() + 1, &find_field("layout", ""));
  if (has_quantise) values.push_back(&quantise);
  return values;
}

FieldValues read_all(const Fields& fields, const RecordJson& record) {
  FieldValues values;
  for (const Field* field : fields) values.push_back(field->read(record));
  return values;
}

std::vector<FieldValues> distinct_keys(const Fields& fields, const Records& records) {
  std::vector<FieldValues> keys;
  for (const RecordJson& record : records) {
    FieldValues key = read_all(fields, record);
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(std::move(key));
  }
  return keys;
}

// Returns the distinct keys; numbers ascend, text keeps the order of its first appearance. Points
// that came out count first: a sweep records what it cannot run before it runs the rest.
std::vector<FieldValues> ordered_keys(const Fields& fields, const Records& records) {
  std::vector<std::map<std::string, std::size_t>> appearance(fields.size());
  std::vector<FieldValues> keys;
  for (const bool came_out : {true, false}) {
    for (const RecordJson& record : records) {
      if ((at(record, {"status"}) == "ok") != came_out) continue;
      FieldValues key = read_all(fields, record);
      for (std::size_t i = 0; i < key.size(); ++i) {
        appearance[i].emplace(key[i].dump(), appearance[i].size());
      }
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(std::move(key));
    }
  }
  const auto before = [&](const FieldValues& a, const FieldValues& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i]) continue;
      if (a[i].is_number() && b[i].is_number()) return a[i].get<double>() < b[i].get<double>();
      return appearance[i].at(a[i].dump()) < appearance[i].at(b[i].dump());
    }
    return false;
  };
  std::stable_sort(keys.begin(), keys.end(), before);
  return keys;
}

[[noreturn]] void refuse_shared_cell(const RecordJson& a, const RecordJson& b) {
  std::vector<std::string> differing;
  for (const Field& field : fields()) {
    const std::string name = field.name;
    const bool tells_apart = field.kind == FieldKind::axis || name == "kernel" ||
                             name == "backend" || name == "config" || name == "cache" ||
                             name == "regime";
    const bool implied = name == "seqlen";  // by seqlen_q and seqlen_k
    if (tells_apart && !implied && field.read(a) != field.read(b)) differing.push_back(name);
  }
  const std::string names = fmt::format("{}", fmt::join(differing, ", "));
  throw UsageError(fmt::format(
      "different points share a cell: they differ in {}; name that in --rows or --cols, "
      "or choose with --where {}=...",
      names, differing.empty() ? "FIELD" : differing.front()));
}

}  // namespace

bool is_constant(const Field& field, const std::vector<RecordJson>& records) {
  return std::all_of(records.begin(), records.end(), [&](const RecordJson& record) {
    return field.read(record) == field.read(records.front());
  });
}

std::vector<const Field*> problem_axes(const std::vector<RecordJson>& records) {
  const auto all_equal = [&](const char* a, const char* b) {
    return std::all_of(records.begin(), records.end(), [&](const RecordJson& record) {
      return at(record, {"problem", a}) == at(record, {"problem", b});
    });
  };
  const bool square = all_equal("seqlen_q", "seqlen_k");
  const bool grouped = !all_equal("num_heads_q", "num_heads_kv");
  const bool any_layout = are_best_layouts(records);
  std::vector<const Field*> axes;
  for (const Field& field : fields()) {
    const std::string name = field.name;
    if (field.kind != FieldKind::axis || (name == "heads_kv" && !grouped)) continue;
    if (name == "layout" && any_layout) continue;
    if (name == "seqlen" ? !square : name.starts_with("seqlen_") && square) continue;
    axes.push_back(&field);
  }
  return axes;
}

Pivot make_pivot(const std::vector<RecordJson>& records, const TableOptions& options) {
  Pivot pivot;
  pivot.rows = find_fields(options.rows, "--rows");
  pivot.cols = find_fields(options.cols, "--cols");
  pivot.values = find_fields(options.values, "--value");
  for (const Field* field : pivot.cols) {
    if (holds(pivot.rows, field->name)) {
      throw UsageError(fmt::format("'{}' is in --rows and in --cols", field->name));
    }
  }
  if (options.cols.empty()) pivot.cols = default_cols(records, pivot.rows);
  add_varying_config(records, pivot.rows, pivot.cols);
  if (options.rows.empty()) pivot.rows = default_rows(records, pivot.cols);
  add_varying_device(records, pivot.cols, pivot.rows);
  if (are_best_layouts(records) && !options.values.empty() && !holds(pivot.values, "layout")) {
    pivot.values.push_back(&find_field("layout", ""));
  }
  if (options.values.empty()) {
    pivot.values = default_values(records, !options.speedup_over.empty());
  }
  pivot.row_keys = ordered_keys(pivot.rows, records);
  pivot.col_keys = ordered_keys(pivot.cols, records);
  if (options.rows_in_order) pivot.row_keys = distinct_keys(pivot.rows, records);
  const auto index = [](const std::vector<FieldValues>& keys, const FieldValues& key) {
    return static_cast<std::size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
  };
  for (const RecordJson& record : records) {
    const auto place = std::pair(index(pivot.row_keys, read_all(pivot.rows, record)),
                                 index(pivot.col_keys, read_all(pivot.cols, record)));
    const auto [cell, is_new] = pivot.cells.emplace(place, &record);
    if (is_new) continue;
    if (record_key(record) != record_key(*cell->second)) refuse_shared_cell(*cell->second, record);
    cell->second = &record;
    ++pivot.replaced;
  }
  return pivot;
}

TableOptions columns_as_rows(const Pivot& pivot, const TableOptions& options) {
  TableOptions result = options;
  result.rows.clear();
  for (const auto* fields_of : {&pivot.rows, &pivot.cols}) {
    for (const Field* field : *fields_of) result.rows.push_back(field->name);
  }
  result.cols.clear();
  return result;
}

}  // namespace attnlab
