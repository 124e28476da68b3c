#include "harness/report/static_facts.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

Compilation compiled() {
  Compilation unit = {.unit = "u", .arch = "sm_90a", .compiler = "NVRTC 13.0"};
  unit.entries = {{.entry = {.name = "forward", .threads = 128, .dynamic_shared_bytes = 4096},
                   .registers = 255,
                   .static_shared_bytes = 16,
                   .blocks_per_multiprocessor = 2}};
  return unit;
}

Json facts_of(const Compilation& unit) { return static_facts({unit}, builtin_registry()); }

// Returns the one number that differs where `change` was done to a compiled entry.
template <class Change>
StaticChange only_change(const Change& change) {
  Compilation other = compiled();
  change(other.entries.front());
  const auto changes = static_changes(facts_of(compiled()), facts_of(other));
  EXPECT_EQ(changes.size(), 1u);
  return changes.empty() ? StaticChange{} : changes.front();
}

TEST(StaticFacts, OfTheSameTreeDoNotDiffer) {
  EXPECT_TRUE(static_changes(facts_of(compiled()), facts_of(compiled())).empty());
}

TEST(StaticFacts, ASpillAndSharedMemoryAreSeen) {
  const StaticChange spill = only_change([](CompiledEntry& of) { of.spill_load_bytes = 8; });
  EXPECT_EQ(spill.what, "units/u sm_90a/forward/spill_bytes");
  EXPECT_EQ(spill.base, 0);
  EXPECT_EQ(spill.now, 8);
  const StaticChange shared =
      only_change([](CompiledEntry& of) { of.entry.dynamic_shared_bytes += 16; });
  EXPECT_EQ(shared.base, 4112);
  EXPECT_EQ(shared.now, 4128);
  EXPECT_EQ(only_change([](CompiledEntry& of) { of.registers = 254; }).now, 254);
  EXPECT_EQ(only_change([](CompiledEntry& of) { of.blocks_per_multiprocessor = 3; }).now, 3);
}

TEST(StaticFacts, AnEntryThatIsGoneOrNewIsSeen) {
  Compilation other = compiled();
  other.entries.front().entry.name = "attend";
  const auto changes = static_changes(facts_of(compiled()), facts_of(other));
  ASSERT_EQ(changes.size(), 12u);  // six numbers each
  EXPECT_EQ(changes.front().what, "units/u sm_90a/attend/blocks_per_multiprocessor");
  EXPECT_FALSE(changes.front().base.has_value());
  EXPECT_FALSE(changes.back().now.has_value());
}

TEST(StaticFacts, SchedulesAreThoseOfTheKernels) {
  const Json schedules = facts_of(compiled())["schedules"];
  const std::string none = "sm_90a fwd/f16/b1/hq8/hkv8/sq1024/sk1024/d64/none/p0/bshd v2";
  const std::string causal = "sm_90a fwd/f16/b1/hq8/hkv8/sq1024/sk1024/d64/causal/p0/bshd v2";
  ASSERT_TRUE(schedules.contains(none) && schedules.contains(causal)) << schedules.dump(1);
  // There are eight rows of eight tiles of 128x128; a causal mask drops those above its diagonal.
  EXPECT_EQ(schedules[none]["tiles_full"], 8 * 64);
  EXPECT_EQ(schedules[causal]["tiles_full"], 8 * 28);
  EXPECT_EQ(schedules[causal]["tiles_partial"], 8 * 8);
  EXPECT_EQ(schedules[none]["executed_flops"], 8LL * 4 * 1024 * 1024 * 64);
  EXPECT_EQ(schedules[none]["config"]["block_m"], 128);
  EXPECT_TRUE(schedules.contains("sm_80" + none.substr(6)));
}

TEST(StaticFacts, WhatIsNoBaselineIsRefused) {
  const std::string good = facts_of(compiled()).dump();
  EXPECT_EQ(parse_static_facts(good, "f").dump(), good);
  EXPECT_THROW(parse_static_facts("{", "f"), UsageError);
  EXPECT_THROW(parse_static_facts("{}", "f"), UsageError);
  EXPECT_THROW(parse_static_facts(R"({"schema": "attnlab.static/2"})", "f"), UsageError);
  Json bad = facts_of(compiled());
  bad["units"]["u sm_90a"]["forward"]["registers"] = "many";
  EXPECT_THROW(static_changes(bad, facts_of(compiled())), UsageError);
}

TEST(StaticFacts, ChangesAreShown) {
  const std::vector<StaticChange> changes = {
      {.what = "units/u/f/registers", .base = 254, .now = 255},
      {.what = "units/u/g/registers", .now = 32}};
  EXPECT_PRED2(contains, render_static_changes(changes, TableFormat::table),
               "units/u/f/registers   254  255\n");
  EXPECT_PRED2(contains, render_static_changes(changes, TableFormat::csv),
               "units/u/g/registers,-,32");
  const Json json = Json::parse(render_static_changes(changes, TableFormat::json));
  EXPECT_EQ(json[0]["now"], 255);
  EXPECT_TRUE(json[1]["base"].is_null());
}

}  // namespace
}  // namespace attnlab
