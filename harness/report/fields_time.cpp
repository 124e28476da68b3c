// Defines fields of the time and of what follows from it: rates, clocks, energy.
#include "harness/base/decimal.h"
#include "harness/report/field_list.h"
#include "harness/report/fields.h"

namespace attnlab {
namespace {

constexpr NumberFormat kPlain = NumberFormat::plain;
constexpr NumberFormat kSignificant = NumberFormat::significant;
constexpr NumberFormat kRatio = NumberFormat::ratio;

// Reads operations per second of the median time, times 10^exponent.
FieldReader rate(const char* count, int exponent) {
  return [count, exponent](const RecordJson& record) -> RecordJson {
    const RecordJson per_second =
        quotient(at(record, {"flops", count}), at(record, {"time", "median_s"}));
    if (per_second.is_null()) return nullptr;
    return times_power_of_ten(per_second.get<double>(), exponent);
  };
}

// Reads bytes per second of the kernels that quantise, in units of 10^9.
RecordJson read_quantise_rate(const RecordJson& record) {
  const RecordJson per_second =
      quotient(at(record, {"quantise", "bytes"}), at(record, {"quantise", "median_s"}));
  if (per_second.is_null()) return nullptr;
  return times_power_of_ten(per_second.get<double>(), -9);
}

RecordJson read_tokens_per_s(const RecordJson& record) {
  const RecordJson batch = at(record, {"problem", "batch"});
  const RecordJson queries = at(record, {"problem", "seqlen_q"});
  if (!batch.is_number() || !queries.is_number()) return nullptr;
  return quotient(batch.get<double>() * queries.get<double>(), at(record, {"time", "median_s"}));
}

}  // namespace

RecordJson read_interval(const RecordJson& record) {
  const RecordJson interval = at(record, {"time", "ci95_s"});
  if (!interval.is_array() || interval.size() != 2) return nullptr;
  if (!interval[0].is_number() || !interval[1].is_number()) return nullptr;
  if (at(record, {"time", "n"}) == 1) return nullptr;
  const double half = 50.0 * (interval[1].get<double>() - interval[0].get<double>());
  return quotient(half, at(record, {"time", "median_s"}));
}

void add_time_fields(FieldList& list) {
  const auto add = [&list](const char* name, const char* title, const char* key,
                           const char* summary) {
    list.add_measure(name, title, "ms", kSignificant, summary, moved({"time", key}, 3));
  };
  list.add_measure("time_ms", "ms", "ms", kSignificant, "median time",
                   moved({"time", "median_s"}, 3), read_interval);
  add("q1_ms", "q1 ms", "q1_s", "first quartile of the time");
  add("q3_ms", "q3 ms", "q3_s", "third quartile of the time");
  add("min_ms", "min ms", "min_s", "shortest time");
  list.add_measure("ci", "ci %", "%", kRatio, "half the 95 % interval of the median, of the median",
                   read_interval);
  list.add_measure("n", "n", "", kPlain, "samples of the time", value_at({"time", "n"}));
  list.add_measure("rounds_asked", "rounds asked", "", kPlain,
                   "rounds that the protocol asked for; n is less where max_seconds ended them",
                   value_at({"time", "rounds_asked"}));
  list.add_measure(kQuantiseField, "quantise ms", "ms", kSignificant,
                   "of e4m3 on a GPU: median time of making codes and scales, beside the time",
                   moved({"quantise", "median_s"}, 3));
  list.add_measure("quantise_gbs", "quantise GB/s", "GB/s", kSignificant,
                   "bytes that this reads and writes / its median time", read_quantise_rate);
}

void add_telemetry_fields(FieldList& list) {
  list.add_measure("clock_mhz", "MHz", "MHz", kSignificant,
                   "median clock of a GPU's multiprocessors around the samples",
                   moved({"time", "telemetry", "median_clock_hz"}, -6));
  list.add_measure("cycles", "cycles", "", kSignificant,
                   "median time x mean clock around the samples",
                   value_at({"time", "telemetry", "cycles"}), read_interval);
  list.add_measure(
      "settled", "settled", "", kPlain,
      "false: over a quarter of the blocks is 5 % off in clock, or of the turns 2 % in "
      "time, or at_work is below 0.9",
      value_at({"time", "telemetry", "settled"}));
  list.add_measure("at_work", "at work", "", kSignificant,
                   "share of a turn in which the kernel's launches ran (settled runs)",
                   value_at({"time", "at_work"}));
  list.add_measure("energy_j", "J/call", "J", kSignificant,
                   "energy of a launch, idle power included (run --energy)",
                   value_at({"energy", "joules_per_call"}));
  list.add_measure("pj_per_flop", "pJ/FLOP", "pJ", kSignificant,
                   "energy of a launch / useful FLOPs (run --energy)",
                   value_at({"energy", "picojoules_per_flop"}));
  list.add_measure("power_w", "W", "W", kSignificant,
                   "mean power while the energy was measured (run --energy)",
                   value_at({"energy", "mean_power_w"}));
}

void add_rate_fields(FieldList& list) {
  list.add_measure("gflops", "GFLOP/s", "GFLOP/s", kSignificant, "useful FLOPs / median time",
                   rate("useful", -9), read_interval);
  list.add_measure("tflops", "TFLOP/s", "TFLOP/s", kSignificant, "useful FLOPs / median time",
                   rate("useful", -12), read_interval);
  list.add_measure("tflops_paper", "paper TFLOP/s", "TFLOP/s", kSignificant,
                   "the papers' convention: every pair, half of them if causal", rate("paper", -12),
                   read_interval);
  list.add_measure("tokens_per_s", "tokens/s", "1/s", kSignificant,
                   "query rows of all entries / median time", read_tokens_per_s, read_interval);
  list.add_measure("speedup", "speedup", "", kRatio,
                   "time of naive (or of --speedup-over) on the same case / median time",
                   value_at({kSpeedupKey, "ratio"}), value_at({kSpeedupKey, "interval"}));
  list.add_measure("speedup_over", "speedup over", "", kPlain, "what the speedup compares with",
                   value_at({kSpeedupKey, "over"}));
}

}  // namespace attnlab
