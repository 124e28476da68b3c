#include "harness/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/axes.h"
#include "harness/errors.h"
#include "harness/suggest.h"
#include "harness/table.h"

namespace attnlab {
namespace {

using Path = std::vector<const char*>;

auto reader(Path path) {
  return [path = std::move(path)](const RecordJson& record) { return at(record, path); };
}

// A number of the record times a constant: seconds -> ms, bytes -> MiB.
auto scaled(Path path, double factor) {
  return [path = std::move(path), factor](const RecordJson& record) -> RecordJson {
    const RecordJson value = at(record, path);
    if (!value.is_number()) return nullptr;
    return value.get<double>() * factor;
  };
}

// numerator / denominator, null where either is missing or the denominator is 0.
RecordJson quotient(const RecordJson& numerator, const RecordJson& denominator) {
  if (!numerator.is_number() || !denominator.is_number()) return nullptr;
  if (denominator.get<double>() == 0.0) return nullptr;
  return numerator.get<double>() / denominator.get<double>();
}

// Operations per second of the median time, in units of `unit`.
auto rate(const char* count, double unit) {
  return [count, unit](const RecordJson& record) -> RecordJson {
    const RecordJson per_second =
        quotient(at(record, {"flops", count}), at(record, {"time", "median_s"}));
    if (per_second.is_null()) return nullptr;
    return per_second.get<double>() / unit;
  };
}

// The verdict in which a number is largest, over all tensors of the pass but lse, which is judged
// by a rule of its own, before and after timing. Records spell infinities and NaN as text: those
// are the largest.
RecordJson find_worst(const RecordJson& record, const char* key) {
  RecordJson worst;
  for (const char* when : {"verify", "verify_timed"}) {
    const RecordJson verdicts = at(record, {when});
    if (!verdicts.is_array()) continue;
    for (const RecordJson& verdict : verdicts) {
      const RecordJson value = at(verdict, {key});
      if (at(verdict, {"tensor"}) == "lse") continue;
      if (value.is_string()) return verdict;
      if (!value.is_number()) continue;
      if (worst.is_null() || worst[key].get<double>() < value.get<double>()) worst = verdict;
    }
  }
  return worst;
}

auto worst_verdict(const char* key) {
  return [key](const RecordJson& record) { return at(find_worst(record, key), {key}); };
}

RecordJson read_worst_tensor(const RecordJson& record) {
  return at(find_worst(record, "ratio_to_twin"), {"tensor"});
}

// The lengths that were given: keys of each entry, or queries x keys where they differ.
RecordJson read_lengths(const RecordJson& record) {
  const RecordJson lengths = at(record, {"problem", "lengths"});
  if (at(lengths, {"given"}) != true) return nullptr;
  const RecordJson keys = at(lengths, {"keys"});
  const RecordJson queries = at(lengths, {"queries"});
  std::string text;
  for (std::size_t b = 0; b < keys.size(); ++b) {
    const bool differ = queries.is_array() && queries[b] != keys[b];
    text += (b == 0 ? "" : "+") + (differ ? exact(queries[b]) + "x" : "") + exact(keys[b]);
  }
  return text;
}

RecordJson read_seqlen(const RecordJson& record) {
  const RecordJson queries = at(record, {"problem", "seqlen_q"});
  return queries == at(record, {"problem", "seqlen_k"}) ? queries : RecordJson();
}

RecordJson read_config(const RecordJson& record) {
  const RecordJson config = at(record, {"config"});
  if (!config.is_object() || config.empty()) return nullptr;
  std::string text;
  for (const auto& [name, value] : config.items()) {
    text += (text.empty() ? "" : ",") + name + "=" + exact(value);
  }
  return text;
}

RecordJson read_block(const RecordJson& record) {
  const RecordJson rows = at(record, {"config", "block_m"});
  const RecordJson keys = at(record, {"config", "block_n"});
  if (rows.is_null() || keys.is_null()) return nullptr;
  if (rows == 0 && keys == 0) return nullptr;  // as the kernel itself chooses
  return exact(rows) + "x" + exact(keys);
}

RecordJson read_tokens_per_s(const RecordJson& record) {
  const RecordJson batch = at(record, {"problem", "batch"});
  const RecordJson queries = at(record, {"problem", "seqlen_q"});
  if (!batch.is_number() || !queries.is_number()) return nullptr;
  return quotient(batch.get<double>() * queries.get<double>(), at(record, {"time", "median_s"}));
}

// Half the width of the interval, in percent of the median.
RecordJson read_ci(const RecordJson& record) {
  const RecordJson interval = at(record, {"time", "ci95_s"});
  if (!interval.is_array() || interval.size() != 2) return nullptr;
  if (!interval[0].is_number() || !interval[1].is_number()) return nullptr;
  const double half = 50.0 * (interval[1].get<double>() - interval[0].get<double>());
  return quotient(half, at(record, {"time", "median_s"}));
}

RecordJson read_input_file(const RecordJson& record) {
  const RecordJson path = at(record, {"input_file", "path"});
  const RecordJson hash = at(record, {"input_file", "fnv1a"});
  if (!path.is_string() || !hash.is_string()) return nullptr;
  return path.get<std::string>() + "#" + hash.get<std::string>();
}

RecordJson read_requested_bytes(const RecordJson& record) {
  const RecordJson read = at(record, {"traffic", "requested_read_bytes"});
  const RecordJson write = at(record, {"traffic", "requested_write_bytes"});
  if (!read.is_number() || !write.is_number()) return nullptr;
  return read.get<double>() + write.get<double>();
}

RecordJson read_executed(const RecordJson& record) {
  const RecordJson kernels = at(record, {"evidence", "executed"});
  if (!kernels.is_array()) return nullptr;
  std::string text;
  for (const RecordJson& kernel : kernels) {
    text += (text.empty() ? "" : " ") + at(kernel, {"symbol"}).get<std::string>();
  }
  return text;
}

// Bytes of a counter that passed its self-test, reads and writes of both or of one kind.
auto counted_mib(const char* memory, std::vector<const char*> kinds) {
  return [memory, kinds = std::move(kinds)](const RecordJson& record) -> RecordJson {
    if (at(record, {"traffic", "valid"}) != true) return nullptr;
    double total = 0.0;
    for (const char* kind : kinds) {
      const RecordJson bytes = at(record, {"traffic", memory, kind});
      if (!bytes.is_number()) return nullptr;
      total += bytes.get<double>();
    }
    return total / (1 << 20);
  };
}

std::vector<Field> make_fields() {
  constexpr FieldKind kAxis = FieldKind::axis;
  constexpr FieldKind kIdentity = FieldKind::identity;
  constexpr FieldKind kMeasure = FieldKind::measure;
  constexpr NumberFormat kPlain = NumberFormat::plain;
  constexpr NumberFormat kSignificant = NumberFormat::significant;
  constexpr NumberFormat kScientific = NumberFormat::scientific;
  constexpr NumberFormat kRatio = NumberFormat::ratio;
  constexpr double kMs = 1e3;
  constexpr double kMib = 1.0 / (1 << 20);
  std::vector<Field> rows;
  const auto add = [&rows](const char* name, const char* title, const char* unit, FieldKind kind,
                           NumberFormat format, const char* summary, auto read) {
    rows.push_back({name, title, unit, kind, format, summary, read});
  };
  const auto problem = [&add](const char* name, const char* key, const char* summary) {
    add(name, name, "", kAxis, kPlain, summary, reader({"problem", key}));
  };
  const auto time = [&add](const char* name, const char* title, const char* key,
                           const char* summary) {
    add(name, title, "ms", kMeasure, kSignificant, summary, scaled({"time", key}, kMs));
  };
  const auto mib = [&add](const char* name, const char* title, Path path, const char* summary) {
    add(name, title, "MiB", kMeasure, kSignificant, summary, scaled(std::move(path), kMib));
  };

  problem("pass", "pass", "what was computed: fwd, bwd or fwdbwd");
  problem("dtype", "dtype", "storage type of q, k, v and o");
  problem("layout", "layout", "order of the dimensions in memory");
  problem("batch", "batch", "batch entries");
  problem("heads", "num_heads_q", "query heads");
  problem("heads_kv", "num_heads_kv", "key/value heads");
  problem("head_dim", "head_dim", "elements of one head");
  problem("mask", "mask", "the mask in its text form");
  add("lengths", "lengths", "", kAxis, kPlain,
      "keys (or queries x keys) of each entry, where they were given", read_lengths);
  problem("dropout", "dropout", "dropout probability");
  add("seqlen", "seqlen", "", kAxis, kPlain, "sequence length, where seqlen_q = seqlen_k",
      read_seqlen);
  problem("seqlen_q", "seqlen_q", "queries of an entry");
  problem("seqlen_k", "seqlen_k", "keys of an entry");
  add("input_kind", "input_kind", "", kAxis, kPlain, "distribution of the inputs",
      reader({"input_kind"}));
  add("input_file", "input_file", "", kAxis, kPlain,
      "the user's file that q, k, v came from, and its hash: PATH#HASH", read_input_file);
  add("seed", "seed", "", kAxis, kPlain, "seed of inputs, dropout and lengths", reader({"seed"}));

  add("kernel", "kernel", "", kIdentity, kPlain, "the kernel's name", reader({"kernel"}));
  add("backend", "backend", "", kIdentity, kPlain, "cpu or cuda", reader({"backend"}));
  add("config", "config", "", kIdentity, kPlain, "all values of the kernel's config axes",
      read_config);
  add("block", "block", "", kIdentity, kPlain, "tile: block_m x block_n", read_block);
  for (const ConfigAxisRow& row : config_axis_rows()) {
    add(row.help.name, row.help.name, "", kIdentity, kPlain, row.help.summary,
        reader({"config", row.help.name}));
  }
  add("status", "status", "", kIdentity, kPlain,
      "ok, failed, unsupported, out_of_memory, invalid or skipped", reader({"status"}));
  add("reason", "reason", "", kIdentity, kPlain, "why the status is not ok", reader({"reason"}));

  time("time_ms", "ms", "median_s", "median time");
  time("q1_ms", "q1 ms", "q1_s", "first quartile of the time");
  time("q3_ms", "q3 ms", "q3_s", "third quartile of the time");
  time("min_ms", "min ms", "min_s", "shortest time");
  add("ci", "ci %", "%", kMeasure, kRatio, "half the 95 % interval of the median, of the median",
      read_ci);
  add("n", "n", "", kMeasure, kPlain, "samples of the time", reader({"time", "n"}));
  add("clock_mhz", "MHz", "MHz", kMeasure, kSignificant,
      "median clock of a GPU's multiprocessors around the samples",
      scaled({"time", "telemetry", "median_clock_hz"}, 1e-6));
  add("cycles", "cycles", "", kMeasure, kSignificant, "median time x mean clock around the samples",
      reader({"time", "telemetry", "cycles"}));
  add("settled", "settled", "", kMeasure, kPlain,
      "false: more than a quarter of the samples' blocks is 5 % off the median clock",
      reader({"time", "telemetry", "settled"}));
  add("energy_j", "J/call", "J", kMeasure, kSignificant,
      "energy of a launch, idle power included (run --energy)",
      reader({"energy", "joules_per_call"}));
  add("pj_per_flop", "pJ/FLOP", "pJ", kMeasure, kSignificant,
      "energy of a launch / useful FLOPs (run --energy)",
      reader({"energy", "picojoules_per_flop"}));
  add("power_w", "W", "W", kMeasure, kSignificant,
      "mean power while the energy was measured (run --energy)",
      reader({"energy", "mean_power_w"}));
  add("gflops", "GFLOP/s", "GFLOP/s", kMeasure, kSignificant, "useful FLOPs / median time",
      rate("useful", 1e9));
  add("tflops", "TFLOP/s", "TFLOP/s", kMeasure, kSignificant, "useful FLOPs / median time",
      rate("useful", 1e12));
  add("tflops_paper", "paper TFLOP/s", "TFLOP/s", kMeasure, kSignificant,
      "the papers' convention: every pair, half of them if causal", rate("paper", 1e12));
  add("tokens_per_s", "tokens/s", "1/s", kMeasure, kSignificant,
      "query rows of all entries / median time", read_tokens_per_s);
  add("speedup", "speedup", "", kMeasure, kRatio, "time of naive on the same case / median time",
      reader({kSpeedupKey}));
  add("ratio_to_twin", "err/twin", "", kMeasure, kRatio,
      "largest error / that of a materialized computation in the same precision",
      worst_verdict("ratio_to_twin"));
  add("worst_tensor", "worst", "", kMeasure, kPlain, "the tensor with the largest err/twin",
      read_worst_tensor);
  add("max_abs", "max abs err", "", kMeasure, kScientific, "largest absolute error",
      worst_verdict("max_abs"));
  add("rel_fro", "rel fro err", "", kMeasure, kScientific, "relative error in the Frobenius norm",
      worst_verdict("rel_fro"));
  mib("inputs_mib", "inputs MiB", {"memory", "inputs_bytes"},
      "q, k, v in memory; with a backward dO, and o where it is read");
  mib("outputs_mib", "outputs MiB", {"memory", "outputs_bytes"}, "outputs in memory");
  mib("saved_mib", "saved MiB", {"memory", "saved_bytes"},
      "lse, and what the kernel saves for its backward");
  mib("workspace_mib", "work MiB", {"memory", "workspace_bytes"},
      "memory beyond inputs and outputs");
  mib("peak_mib", "peak MiB", {"memory", "peak_bytes"}, "measured peak of the memory");
  mib("compulsory_mib", "compulsory MiB", {"traffic", "compulsory_bytes"},
      "each tensor moved once");
  mib("requested_read_mib", "req. read MiB", {"traffic", "requested_read_bytes"},
      "what the schedule loads (modelled)");
  mib("requested_write_mib", "req. write MiB", {"traffic", "requested_write_bytes"},
      "what the schedule stores (modelled)");
  const auto tiles = [&add](const char* name, const char* key, const char* summary) {
    add(name, name, "", kMeasure, kPlain, summary, reader({"traffic", "tiles", key}));
  };
  tiles("tiles_empty", "empty", "tiles of the attention matrix that were skipped");
  tiles("tiles_partial", "partial", "tiles on the border of the mask");
  tiles("tiles_full", "full", "tiles that are visible as a whole");
  add("visible_blocks", "visible %", "%", kMeasure, kSignificant,
      "blocks of a block mask that are visible",
      scaled({"problem", "blocks", "visible_fraction"}, 100.0));
  add("requested_mib", "requested MiB", "MiB", kMeasure, kSignificant,
      "what the schedule loads and stores (modelled)", [](const RecordJson& record) -> RecordJson {
        const RecordJson bytes = read_requested_bytes(record);
        if (bytes.is_null()) return nullptr;
        return bytes.get<double>() * kMib;
      });
  const auto counted = [&add](const char* name, const char* title, const char* memory,
                              std::vector<const char*> kinds, const char* summary) {
    add(name, title, "MiB", kMeasure, kSignificant, summary, counted_mib(memory, std::move(kinds)));
  };
  counted("l2_mib", "L2 MiB", "l2", {"read_bytes", "write_bytes"},
          "what the multiprocessors asked the L2 for (counted)");
  counted("l2_read_mib", "L2 read MiB", "l2", {"read_bytes"}, "of it, reads");
  counted("l2_write_mib", "L2 write MiB", "l2", {"write_bytes"}, "of it, writes");
  counted("dram_mib", "dram MiB", "dram", {"read_bytes", "write_bytes"},
          "what reached the GPU's memory (counted)");
  counted("dram_read_mib", "dram read MiB", "dram", {"read_bytes"}, "of it, reads");
  counted("dram_write_mib", "dram write MiB", "dram", {"write_bytes"}, "of it, writes");
  add("tensor_pct", "tensor %", "%", kMeasure, kSignificant,
      "cycles with a tensor pipe at work, of those with a warp (counted)",
      reader({"counters", "tensor_active_percent"}));
  add("cache_claim", "cache claim", "", kMeasure, kPlain,
      "hot or cold caches: proved, unproved or rejected by the counters",
      reader({"cache_claim", "verdict"}));
  add("executed", "executed", "", kMeasure, kPlain, "kernels that really ran, symbols",
      read_executed);
  add("intensity", "FLOP/byte", "FLOP/byte", kMeasure, kSignificant,
      "arithmetic intensity: useful FLOPs / requested bytes", [](const RecordJson& record) {
        return quotient(at(record, {"flops", "useful"}), read_requested_bytes(record));
      });

  add("compulsory_intensity", "FLOP/comp. byte", "FLOP/byte", kMeasure, kSignificant,
      "useful FLOPs / compulsory bytes", reader({"roof", "intensity_flop_per_byte"}));
  add("dram_intensity", "FLOP/dram byte", "FLOP/byte", kMeasure, kSignificant,
      "useful FLOPs / measured bytes of the DRAM",
      reader({"roof", "dram_intensity_flop_per_byte"}));
  add("binds", "binds", "", kMeasure, kPlain,
      "the measured peak that the point is nearer to: compute or memory",
      reader({"roof", "binds"}));
  add("pct_peak", "peak %", "%", kMeasure, kSignificant,
      "rate / settled measured peak of what binds (attnlab peak)",
      reader({"roof", "percent_of_roof"}));

  const auto device = [&add](const char* name, const char* key, const char* summary) {
    add(name, name, "", kIdentity, kPlain, summary, reader({"device", key}));
  };
  device("device", "name", "where it ran");
  device("isa", "isa", "instruction set that the CPU kernels used");
  device("threads", "threads", "CPU threads");
  add("commit", "commit", "", kIdentity, kPlain, "commit of the build",
      reader({"build", "commit"}));
  add("sweep", "sweep", "", kIdentity, kPlain, "the sweep that ran it", reader({"sweep"}));
  add("timestamp", "timestamp", "", kIdentity, kPlain, "when it ended, UTC", reader({"timestamp"}));
  return rows;
}

// Four significant digits without exponent, at most four decimals.
std::string significant(double value) {
  if (value == 0.0) return "0";
  constexpr int kDigits = 4;
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  return fmt::format("{:.{}f}", value, std::clamp(kDigits - 1 - magnitude, 0, kDigits));
}

}  // namespace

const std::vector<Field>& fields() {
  static const std::vector<Field> kFields = make_fields();
  return kFields;
}

const Field& find_field(std::string_view name, std::string_view where) {
  std::vector<std::string> names;
  for (const Field& field : fields()) {
    if (name == field.name) return field;
    names.push_back(field.name);
  }
  throw UsageError(fmt::format("{}: unknown field '{}'{}", where, name, suggestion(name, names)));
}

const std::vector<FieldHelp>& field_help() {
  static const std::vector<FieldHelp> kHelp = [] {
    std::vector<FieldHelp> help;
    for (const Field& field : fields()) help.push_back({field.name, field.unit, field.summary});
    return help;
  }();
  return kHelp;
}

void add_speedups(std::vector<RecordJson>& records) {
  const auto case_of = [](const RecordJson& record) {
    std::string text;
    for (const char* key : {"id", "input_kind", "seed", "backend"}) {
      text += at(record, {key}).dump();
    }
    text += at(record, {"input_file", "fnv1a"}).dump();
    for (const char* key : {"name", "isa", "threads"}) text += at(record, {"device", key}).dump();
    return text;
  };
  std::map<std::string, RecordJson> naive_s;
  for (const RecordJson& record : records) {
    const RecordJson time = at(record, {"time", "median_s"});
    if (at(record, {"kernel"}) == "naive" && time.is_number()) naive_s[case_of(record)] = time;
  }
  for (RecordJson& record : records) {
    const auto naive = naive_s.find(case_of(record));
    if (naive == naive_s.end()) continue;
    record[kSpeedupKey] = quotient(naive->second, at(record, {"time", "median_s"}));
  }
}

std::string display(const Field& field, const RecordJson& value) {
  if (value.is_null()) return "-";
  if (!value.is_number() || field.format == NumberFormat::plain) return exact(value);
  const double number = value.get<double>();
  switch (field.format) {
    case NumberFormat::significant: return significant(number);
    case NumberFormat::scientific: return fmt::format("{:.1e}", number);
    case NumberFormat::ratio: return fmt::format("{:.2f}", number);
    case NumberFormat::plain: break;
  }
  return exact(value);
}

std::string exact(const RecordJson& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.dump();
}

RecordJson at(const RecordJson& record, const std::vector<const char*>& path) {
  const RecordJson* value = &record;
  for (const char* key : path) {
    if (!value->is_object() || !value->contains(key)) return nullptr;
    value = &(*value)[key];
  }
  return *value;
}

}  // namespace attnlab
