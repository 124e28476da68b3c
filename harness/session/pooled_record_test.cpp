#include "harness/session/pooled_record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace attnlab {
namespace {

RecordJson record(const std::vector<double>& samples, bool settled = true, double cycles = 100.0) {
  RecordJson record = {{"status", "ok"}, {"time", RecordJson::object()}};
  record["time"]["samples_s"] = samples;
  record["time"]["median_s"] = 0.0;
  record["time"]["telemetry"] = {{"settled", settled}, {"cycles", cycles}};
  return record;
}

std::vector<double> samples_of(const RecordJson& record) {
  return record.at("time").at("samples_s").get<std::vector<double>>();
}

TEST(PooledRecord, HasTheSamplesOfAllProcessesInPlaceOfItsOwn) {
  RecordJson first = record({9.0, 9.0, 9.0});
  first["verify"] = "as it was first";
  first["memory"] = {{"peak_bytes", 7}};
  const RecordJson pool =
      pooled(first, {record({1.0, 2.0}), record({3.0, 4.0}, true, 300.0), record({5.0})});
  EXPECT_EQ(samples_of(pool), std::vector<double>({1.0, 2.0, 3.0, 4.0, 5.0}));
  EXPECT_EQ(pool["time"]["median_s"], 3.0);
  EXPECT_EQ(pool["time"]["medians_s"], RecordJson({1.5, 3.5, 5.0}));
  EXPECT_EQ(pool["time"]["n"], 5);
  EXPECT_LE(pool["time"]["ci95_s"][0], 3.0);
  EXPECT_GE(pool["time"]["ci95_s"][1], 3.0);
  EXPECT_EQ(pool["time"]["telemetry"]["cycles"], 100.0) << "the median of three processes";
  EXPECT_EQ(pool["time"]["telemetry"]["settled"], true);
  EXPECT_EQ(pool["verify"], "as it was first");
  EXPECT_EQ(pool["memory"]["peak_bytes"], 7);
}

TEST(PooledRecord, LeavesOutProcessesWhoseClockDidNotSettleIfOthersDid) {
  const RecordJson pool = pooled(record({9.0}, false), {record({1.0}, false), record({2.0})});
  EXPECT_EQ(samples_of(pool), std::vector<double>({2.0}));
  EXPECT_EQ(pool["time"]["medians_s"], RecordJson({nullptr, 2.0}));
  EXPECT_EQ(pool["time"]["telemetry"]["settled"], true);
  const RecordJson none = pooled(record({9.0}), {record({1.0}, false), record({2.0}, false)});
  EXPECT_EQ(samples_of(none), std::vector<double>({1.0, 2.0}));
  EXPECT_EQ(none["time"]["telemetry"]["settled"], false);
}

TEST(PooledRecord, OneWithoutATimeIsWhatBecameOfThePoint) {
  RecordJson wrong = record({1.0});
  wrong["status"] = "failed";
  EXPECT_EQ(pooled(record({9.0}), {record({1.0}), wrong})["status"], "failed");
  RecordJson untimed = record({1.0});
  untimed["time"] = nullptr;
  EXPECT_EQ(pooled(record({9.0}), {untimed, record({1.0})})["time"], nullptr);
  EXPECT_EQ(samples_of(pooled(wrong, {record({1.0}), record({2.0})})),
            std::vector<double>({1.0, 2.0}));
}

}  // namespace
}  // namespace attnlab
