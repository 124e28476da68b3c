#include "harness/report/gate_kernels.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/testing/one_line.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

// Makes a record of a peer that ran these kernels, as its process says.
RecordJson ran(const std::string& id, const std::vector<std::string>& symbols) {
  RecordJson executed = RecordJson::array();
  for (const std::string& symbol : symbols) {
    executed.push_back({{"symbol", symbol}, {"launches", 1}});
  }
  return {{"id", id},
          {"kernel", "torch:flash"},
          {"backend", "cuda"},
          {"config", RecordJson::object()},
          {"input_kind", "normal"},
          {"seed", 7},
          {"status", "ok"},
          {"protocol", RecordJson::object()},
          {"evidence", {{"executed", executed}, {"reason", ""}}}};
}

RecordJson unseen(const std::string& id, const char* reason, const char* status = "ok") {
  RecordJson record = ran(id, {});
  record["status"] = status;
  record["evidence"] = {{"executed", nullptr}, {"reason", reason}};
  return record;
}

TEST(GateKernels, EachCompetitorIsNamedWithWhatItRan) {
  const SideKernels side = kernels_of_side(
      "head", {ran("a", {"flash_fwd_kernel"}), ran("b", {"flash_bwd_x", "Memset (Device)"}),
               ran("c", {"flash_bwd_x", "Memset (Device)"}),
               ran("d", {"Memcpy DtoD (Device -> Device)", "Memset (Device)"})});
  ASSERT_EQ(side.beyond.size(), 3u);
  EXPECT_EQ(side.beyond[0].launches, "1 Memset");
  EXPECT_EQ(one_line(describe({side})),
            "The head ran what operations do not need, and times hold it: torch:flash: 1 Memset (2 "
            "points); torch:flash: 1 Memcpy DtoD, 1 Memset (1 point). ");
  const auto json = beyond_json({side});
  ASSERT_EQ(json.size(), 3u);
  EXPECT_EQ(json[2]["side"], "head");
  EXPECT_EQ(json[2]["kernel"], "torch:flash");
  EXPECT_EQ(json[2]["launches"], "1 Memcpy DtoD, 1 Memset");
  EXPECT_PRED2(contains, json[2]["key"].get<std::string>(), "d/torch:flash/cuda");
  EXPECT_TRUE(unseen_json({side}).empty());
}

TEST(GateKernels, WhatNobodySawHasItsReason) {
  RecordJson older = unseen("c", "");
  older.erase("evidence");
  const SideKernels base = kernels_of_side("base", {unseen("a", "no CUPTI"), older});
  const SideKernels head = kernels_of_side(
      "head", {unseen("a", "no CUPTI"), unseen("b", "no CUPTI"), unseen("c", "", "unsupported")});
  EXPECT_EQ(one_line(describe({base, head})),
            "Nobody saw whether copies, casts or fills beyond the operation ran in 1 point of the "
            "base and 2 points of the head: no CUPTI. Nobody saw whether copies, casts or fills "
            "beyond the operation ran in 1 point of the base: the record does not say. ");
  const auto json = unseen_json({base, head});
  ASSERT_EQ(json.size(), 3u);
  EXPECT_EQ(json[2],
            nlohmann::ordered_json({{"side", "head"}, {"points", 2}, {"reason", "no CUPTI"}}));
  EXPECT_TRUE(beyond_json({base, head}).empty());
}

TEST(GateKernels, WhereAllIsSeenAndNeededNothingIsSaid) {
  EXPECT_EQ(describe({kernels_of_side("base", {ran("a", {"flash_fwd_kernel"})})}), "");
}

}  // namespace
}  // namespace attnlab
