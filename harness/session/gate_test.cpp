// Tests run_gate() on programs that only write records: what it makes of the kernels that they say.
#include "harness/session/gate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/text_file.h"
#include "harness/record/record_file.h"
#include "harness/record/record_json.h"
#include "harness/report/gate_kernels.h"
#include "harness/session/given_turns.h"
#include "harness/testing/one_line.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

constexpr const char* kOwn = "forward";
constexpr const char* kCopy =
    "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(int)>(int)";

// Makes a record of a kernel with 15 equal samples, of one unit.
RecordJson measured() {
  std::vector<std::string> warnings;
  const std::vector<RecordJson> small = read_records(in_tree("tests/data/small.jsonl"), warnings);
  RecordJson record = *std::ranges::find(
      small, "ok", [](const RecordJson& of) { return of["status"].get<std::string>(); });
  record["time"]["samples_s"] = std::vector<double>(15, 1e-3);
  record["time"]["median_s"] = 1e-3;
  record["compile"] = {{{"unit", "u"}, {"entries", RecordJson::array({{{"name", kOwn}}})}}};
  record["evidence"] = {{"executed", nullptr}, {"reason", "--counters off"}};
  return record;
}

RecordJson evidence_of(const std::vector<std::string>& symbols) {
  RecordJson executed = RecordJson::array();
  for (const std::string& symbol : symbols) {
    executed.push_back({{"symbol", symbol}, {"launches", 1}});
  }
  return {{"executed", executed}, {"reason", ""}};
}

class RunGate : public testing::Test {
 protected:
  // Makes a side: a program that measures the point, and sees these kernels where it may count.
  GateSide side(const std::string& name, const std::vector<std::string>& symbols) {
    RecordJson seen = measured();
    seen["evidence"] = evidence_of(symbols);
    write(name + ".seen", seen.dump() + "\n");
    return side_that(name, "cp '" + path(name + ".seen") + "' \"$out\"");
  }
  // Makes one that does this in place of a look.
  GateSide side_that(const std::string& name, const std::string& looks) {
    write(name + ".timed", measured().dump() + "\n");
    const std::string program = path(name + ".sh");
    write(name + ".sh",
          fmt::format(R"(#!/bin/sh
for word; do case "$word" in
  --out=*) out="${{word#--out=}}";;
  --counters=*) counters="${{word#--counters=}}";;
  --rounds=*) rounds="${{word#--rounds=}}";;
esac; done
echo "$counters $rounds" >>'{}'
echo '{}'
if [ "$counters" = off ]; then cp '{}' "$out"; else {}; fi
)",
                      path(name + ".log"), turn_greeting(), path(name + ".timed"), looks));
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    return {.name = name, .program = program};
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }
  std::string log_of(const std::string& name) const { return read_text(path(name + ".log")); }

  GateResult gate(const GateSide& base, const GateSide& head, const CompareOptions& options = {},
                  const std::string& why_not = "") const {
    const GateRun run = {.head = head,
                         .base = base,
                         .points = {record_key(measured())},
                         .rounds = 15,
                         .folder = folder_.path(),
                         .why_no_kernels = why_not,
                         .shows_progress = false};
    return run_gate(run, options, nullptr).front();
  }
  static std::string said(const GateResult& result) {
    return one_line(describe({kernels_of_side("base", result.sides.base),
                              kernels_of_side(result.head, result.sides.head)}));
  }

  TestFolder folder_;
};

TEST_F(RunGate, EachSideIsLookedAtOnceAndNotWhileItIsTimed) {
  const GateResult result = gate(side("base", {kOwn}), side("head", {kOwn}));
  EXPECT_EQ(result.code, kExitGood);
  EXPECT_EQ(log_of("base"), "off 15\nauto 1\n");
  EXPECT_EQ(log_of("head"), "off 15\nauto 1\n");
  EXPECT_EQ(said(result), "");
  EXPECT_EQ(read_text(path("head-kernels.txt")), record_key(measured()) + "\n");
}

TEST_F(RunGate, ACopyThatOnlyTheHeadRunsIsWorse) {
  const GateSide base = side("base", {kOwn}), head = side("head", {kOwn, kCopy, kCopy});
  const GateResult result = gate(base, head);
  EXPECT_EQ(result.code, kExitSlower);
  EXPECT_PRED2(contains, said(result), "The head ran what operations do not need");
  EXPECT_PRED2(contains, said(result), "2 direct_copy_kernel_cuda (1 point)");
  EXPECT_EQ(gate(base, head, {.fail_on = {Judged::time, Judged::errors}}).code, kExitGood);
  EXPECT_EQ(gate(head, base).code, kExitGood) << "one less is no fault";
}

TEST_F(RunGate, WhatBothSidesRunIsNamedAndNoFault) {
  const GateResult result = gate(side("base", {kOwn, kCopy}), side("head", {kOwn, kCopy}));
  EXPECT_EQ(result.code, kExitGood);
  EXPECT_PRED2(contains, said(result), "The base ran what operations do not need");
  EXPECT_PRED2(contains, said(result), "The head ran what operations do not need");
  EXPECT_EQ(gate(side("base", {kOwn, "Memset (Device)"}), side("head", {kOwn, kCopy})).code,
            kExitSlower)
      << "another one in its place is a new one";
}

TEST_F(RunGate, WhatNobodySawIsSaidAndNoFault) {
  const GateSide sees = side("base", {kOwn});
  const GateResult dies = gate(sees, side_that("head", "exit 3"));
  EXPECT_EQ(dies.code, kExitGood);
  EXPECT_PRED2(contains, said(dies), "1 point of the head: the run that was to see it ended with");
  EXPECT_PRED2(contains, said(dies), "exit status 3");
  const GateResult chatters = gate(sees, side_that("head", "echo hello"));
  EXPECT_EQ(chatters.code, kExitGood);
  EXPECT_PRED2(contains, said(chatters), "which asks for no turn");
  RecordJson blind = measured();
  blind["evidence"] = {{"executed", nullptr}, {"reason", "CUPTI is not there"}};
  write("blind", blind.dump() + "\n");
  const GateResult lacks = gate(sees, side_that("head", "cp '" + path("blind") + "' \"$out\""));
  EXPECT_EQ(lacks.code, kExitGood);
  EXPECT_PRED2(contains, said(lacks), "1 point of the head: CUPTI is not there.");
}

TEST_F(RunGate, WithoutALookBothSidesSayWhy) {
  const GateResult result = gate(side("base", {kOwn}), side("head", {kCopy}), {}, "nobody looks");
  EXPECT_EQ(result.code, kExitGood);
  EXPECT_EQ(log_of("head"), "off 15\n");
  EXPECT_PRED2(contains, said(result), "1 point of the base and 1 point of the head");
  EXPECT_PRED2(contains, said(result), "nobody looks.");
}

}  // namespace
}  // namespace attnlab
