#include "harness/session/pooled_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/statistics.h"

namespace attnlab {
namespace {

bool is_settled(const RecordJson& record) {
  return at(record, {"time", "telemetry", "settled"}) != false;
}

bool has_time(const RecordJson& record) {
  return record.at("status") == "ok" && record.at("time").is_object();
}

}  // namespace

RecordJson pooled(const RecordJson& first, const std::vector<RecordJson>& again) {
  for (const RecordJson& record : again) {
    if (!has_time(record)) return record;
  }
  RecordJson pool = has_time(first) ? first : again.front();
  const bool any_settled = std::ranges::any_of(again, is_settled);
  std::vector<double> samples, cycles;
  RecordJson medians = RecordJson::array();
  for (const RecordJson& record : again) {
    if (any_settled && !is_settled(record)) {
      medians.push_back(nullptr);
      continue;
    }
    const auto own = record.at("time").at("samples_s").get<std::vector<double>>();
    medians.push_back(median(own));
    samples.insert(samples.end(), own.begin(), own.end());
    const RecordJson of_clock = at(record, {"time", "telemetry", "cycles"});
    if (of_clock.is_number()) cycles.push_back(of_clock.get<double>());
  }
  RecordJson& time = pool["time"];
  const Interval interval = median_interval95(samples);
  time["median_s"] = median(samples);
  time["ci95_s"] = {interval.low, interval.high};
  time["n"] = samples.size();
  time["samples_s"] = std::move(samples);
  time["medians_s"] = std::move(medians);
  if (at(pool, {"time", "telemetry"}).is_object()) {
    time["telemetry"]["settled"] = any_settled;
    time["telemetry"]["cycles"] = cycles.empty() ? RecordJson() : RecordJson(median(cycles));
  }
  return pool;
}

}  // namespace attnlab
