#include "harness/report/explanation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "harness/base/page.h"
#include "harness/base/text_file.h"
#include "harness/record/record_file.h"
#include "harness/testing/test_peaks.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Records = std::vector<RecordJson>;

Records committed(const std::string& file) {
  std::vector<std::string> warnings;
  return read_records(in_tree(file), warnings);
}

// Returns v3 at seqlen 1024 and head_dim 128, slowed down until nothing binds it.
RecordJson balanced() {
  static const Records kAll = committed("results/nvidia-h200/fa3.jsonl");
  static const RecordJson kMeasured = *std::ranges::find_if(kAll, [](const RecordJson& record) {
    const RecordJson& problem = record["problem"];
    return record["kernel"] == "v3" && problem["seqlen_q"] == 1024 && problem["head_dim"] == 128;
  });
  RecordJson record = kMeasured;
  record["time"]["median_s"] = 400e-6;
  record["counters"]["tensor_active_percent"] = 200.0;
  record["time"]["telemetry"]["mean_clock_hz"] = 1.98e9;
  for (RecordJson& block : record["time"]["telemetry"]["blocks"]) {
    block["throttle_reasons"] = RecordJson::array();
  }
  return record;
}

Explanation explained(const RecordJson& record, const Records& beside = {}) {
  static const Peaks kPeaks = h200_peaks();
  const RecordedPoint point = recorded_point(record, builtin_registry());
  return explain(record, tile_facts(point, builtin_registry(), record, beside), &kPeaks);
}

const LimiterShare& finding_of(const Explanation& explanation, Limiter limiter) {
  return *std::ranges::find(explanation.findings, limiter, &LimiterShare::limiter);
}

RecordJson& entry_of(RecordJson& record) { return record["compile"][0]["entries"][0]; }

void make_memory_bound(RecordJson& record) {
  record["traffic"]["dram"] = {{"read_bytes", 0.9 * 4.5e12 * 400e-6}, {"write_bytes", 0.0}};
}

void make_l2_hot(RecordJson& record) {
  record["traffic"]["l2"] = {{"read_bytes", 0.85 * 9e12 * 400e-6}, {"write_bytes", 0.0}};
}

void make_power_limited(RecordJson& record) {
  record["time"]["telemetry"]["mean_clock_hz"] = 1.386e9;  // 70 % of the highest
  for (RecordJson& block : record["time"]["telemetry"]["blocks"]) {
    block["throttle_reasons"] = {"power cap"};
  }
  record["counters"]["tensor_active_percent"] = 300.0;
}

void make_spilling(RecordJson& record) {
  entry_of(record)["spill_store_bytes"] = 128;
  entry_of(record)["spill_load_bytes"] = 256;
}

// The grid of v3 has a block for each of its 8 tiles of rows and head, and 132 at most.
void set_heads(RecordJson& record, int heads) {
  record["problem"]["batch"] = 1;
  record["problem"]["num_heads_q"] = record["problem"]["num_heads_kv"] = heads;
  const std::string count = std::to_string(heads);
  record["id"] = "fwd/f16/b1/hq" + count + "/hkv" + count + "/sq1024/sk1024/d128/none/p0/bhsd";
  record["evidence"]["executed"][0]["grid"] = {std::min(8 * heads, 132), 1, 1};
}
void make_too_few_tiles(RecordJson& record) { set_heads(record, 4); }
void make_idle_tail(RecordJson& record) { set_heads(record, 20); }

// Makes items of unequal length: a timeline alone tells how the launch ended.
void make_seen_tail(RecordJson& record) {
  record["problem"]["mask"] = "causal";
  record["timeline"] = {{"void", false}, {"idle_share_at_end", 0.25}};
}

// Makes conflicts that take 40 % of 132 multiprocessors' cycles.
void make_conflicts(RecordJson& record) {
  const double cycles = 132 * 1.98e9 * 400e-6;
  record["counters"]["shared_wavefronts"] = 0.8 * cycles;
  record["counters"]["shared_load_conflicts"] = 0.39 * cycles;
  record["counters"]["shared_store_conflicts"] = 0.01 * cycles;
}

void make_unsettled(RecordJson& record) {
  make_power_limited(record);
  make_memory_bound(record);
  record["time"]["telemetry"]["settled"] = false;
  record["time"]["telemetry"]["marked_blocks"] = 1;
}

void make_launch_bound(RecordJson& record) { record["time"]["graph"] = {{"median_s", 200e-6}}; }

void make_tensor_bound(RecordJson& record) { record["counters"]["tensor_active_percent"] = 360.0; }

// At head_dim 8 a product costs little beside the exponential of its pair.
void make_exponential(RecordJson& record) {
  record["problem"]["head_dim"] = 8;
  record["flops"]["useful"] = 0.95 * 4e12 * 400e-6 * 4.0 * 8.0;
}

struct Planted {
  const char* name;
  void (*plant)(RecordJson& record);
  Limiter limiter;
  std::optional<double> share;
};

const Planted kPlanted[] = {
    {"memory-bound", make_memory_bound, Limiter::dram, 0.9},
    {"L2-hot", make_l2_hot, Limiter::l2, 0.85},
    {"power-limited", make_power_limited, Limiter::clock, 0.3},
    {"too few tiles", make_too_few_tiles, Limiter::few_tiles, 1.0 - 32.0 / 132},
    {"spilling", make_spilling, Limiter::spills, std::nullopt},
    {"idle tail", make_idle_tail, Limiter::tail, 1.0 - 160.0 / 264},
    {"tail of a timeline", make_seen_tail, Limiter::tail, 0.25},
    {"bank conflicts", make_conflicts, Limiter::shared_memory, 0.4},
    {"unsettled", make_unsettled, Limiter::unsettled, std::nullopt},
    {"launch", make_launch_bound, Limiter::launch, 0.5},
    {"products", make_tensor_bound, Limiter::tensor, 0.9},
    {"exponentials", make_exponential, Limiter::exponentials, 0.95},
};

RecordJson planted(const Planted& fault) {
  RecordJson record = balanced();
  fault.plant(record);
  return record;
}

TEST(Explanations, NameThePlantedLimiterFirst) {
  for (const Planted& fault : kPlanted) {
    const Explanation explanation = explained(planted(fault));
    ASSERT_NE(explanation.limiter(), nullptr) << fault.name;
    EXPECT_STREQ(to_string(explanation.limiter()->limiter), to_string(fault.limiter)) << fault.name;
    EXPECT_EQ(explanation.limiter()->share.has_value(), fault.share.has_value()) << fault.name;
    EXPECT_NEAR(explanation.limiter()->share.value_or(0.0), fault.share.value_or(0.0), 1e-3);
    EXPECT_FALSE(explanation.limiter()->number.empty() || explanation.limiter()->source.empty());
  }
}

TEST(Explanations, NameNothingWhereNothingBinds) {
  const Explanation explanation = explained(balanced());
  EXPECT_EQ(explanation.limiter(), nullptr);
  EXPECT_EQ(headline(explanation),
            "Nothing binds it: the largest share is that of products, 50.0 %.");
  for (const LimiterShare& finding : explanation.findings) EXPECT_FALSE(finding.binds());
}

TEST(Explanations, OfAMemoryThatBindsTheClockIsNotToBlame) {
  RecordJson record = balanced();
  make_power_limited(record);
  make_memory_bound(record);
  const Explanation explanation = explained(record);
  EXPECT_EQ(explanation.limiter()->limiter, Limiter::dram);
  EXPECT_FALSE(finding_of(explanation, Limiter::clock).binds());
}

// A GPU that rests between samples is read at any clock.
TEST(Explanations, AClockThatNothingHoldsDownBindsNothing) {
  RecordJson record = balanced();
  record["time"]["telemetry"]["mean_clock_hz"] = 1.0e9;
  EXPECT_FALSE(finding_of(explained(record), Limiter::clock).binds());
  EXPECT_NEAR(*finding_of(explained(record), Limiter::clock).share, 1.0 - 1.0 / 1.98, 1e-9);
}

TEST(Explanations, WhatIsMissingOrNoNumberBindsNothing) {
  struct Damage {
    Limiter limiter;
    const char* path;
  };
  for (const Damage& damage :
       std::initializer_list<Damage>{{Limiter::dram, "/traffic/dram/read_bytes"},
                                     {Limiter::l2, "/traffic/l2/read_bytes"},
                                     {Limiter::clock, "/time/telemetry/mean_clock_hz"},
                                     {Limiter::exponentials, "/flops/useful"},
                                     {Limiter::shared_memory, "/counters/shared_load_conflicts"},
                                     {Limiter::spills, "/compile"},
                                     {Limiter::tail, "/compile"}}) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const RecordJson& value : {RecordJson(nullptr), RecordJson("nan"), RecordJson(nan)}) {
      RecordJson record = balanced();
      for (const Planted& fault : kPlanted) {
        if (fault.limiter == damage.limiter) fault.plant(record);
      }
      record.erase("timeline");  // it needs none of these
      record[RecordJson::json_pointer(damage.path)] = value;
      const LimiterShare finding = finding_of(explained(record), damage.limiter);
      EXPECT_FALSE(finding.binds()) << damage.path;
      EXPECT_FALSE(finding.share) << damage.path;
      EXPECT_FALSE(finding.reason.empty()) << damage.path;
    }
  }
  RecordJson counts_that_failed = balanced();
  make_memory_bound(counts_that_failed);
  counts_that_failed["traffic"]["valid"] = false;
  EXPECT_FALSE(finding_of(explained(counts_that_failed), Limiter::dram).share);
}

TEST(Explanations, AVoidTimelineSaysNothingOfTheTail) {
  RecordJson record = balanced();
  make_seen_tail(record);
  record["timeline"]["void"] = true;
  EXPECT_FALSE(finding_of(explained(record), Limiter::tail).share);
  record["timeline"] = {{"void", false}, {"idle_share_at_end", "nan"}};
  EXPECT_FALSE(finding_of(explained(record), Limiter::tail).share);
}

// Collects every number of a record, an explanation or both.
void collect(const RecordJson& value, std::set<double>& numbers) {
  if (value.is_number()) numbers.insert(value.get<double>());
  for (const RecordJson& inner : value) {
    if (value.is_structured()) collect(inner, numbers);
  }
}

std::string without(std::string text, const std::string& part) {
  const std::size_t place = text.find(part);
  EXPECT_NE(place, std::string::npos) << part << " in " << text;
  return place == std::string::npos ? text : text.erase(place, part.size());
}

bool is_in_a_unit(double value, const std::string& shown) {
  const double written = std::stod(shown);
  if (value == 0.0 || written == 0.0) return value == written;
  return std::ranges::any_of(
      std::initializer_list<double>{1.0, 1e-2, 1e-3, 1e-6, 1e6, 1e9, 1e12, 0x1p10, 0x1p20},
      [&](double unit) { return std::abs(value / unit / written - 1.0) <= 0.006; });
}

// Returns whether a text has a number; kernels' names, and L2, are words.
bool has_number(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(text[i])) != 0;
    const bool is_word = i > 0 && std::isalpha(static_cast<unsigned char>(text[i - 1])) != 0;
    if (is_digit && !is_word) return true;
  }
  return false;
}

void expect_cited(const Explanation& explanation, const RecordJson& record,
                  const std::string& who) {
  ASSERT_TRUE(explanation.next) << who;
  const Advice& advice = *explanation.next;
  EXPECT_FALSE(advice.cited.empty()) << who;
  RecordJson known = to_json(explanation);
  known.erase("next");
  std::set<double> numbers;
  collect(known, numbers);
  collect(record, numbers);
  for (const KernelFact& other : explanation.tiles.others) numbers.insert(other.bytes);
  if (const auto off = unsettled_of(record)) numbers.insert({off->marked, off->all});
  if (explanation.counts.requested_bytes && explanation.seconds) {
    numbers.insert(*explanation.counts.requested_bytes / *explanation.seconds);
  }
  std::string rest = advice.sentence;
  std::vector<Cited> longest_first = advice.cited;
  std::ranges::stable_sort(longest_first, std::greater<>(),
                           [](const Cited& cited) { return cited.shown.size(); });
  for (const Cited& cited : longest_first) {
    EXPECT_TRUE(numbers.contains(cited.value)) << who << ": " << cited.source;
    EXPECT_TRUE(is_in_a_unit(cited.value, cited.shown)) << who << ": " << cited.shown;
    rest = without(rest, cited.shown);
  }
  EXPECT_FALSE(has_number(rest)) << who << ": " << rest;
}

TEST(NextStep, RestsOnNumbersOfTheRecordAndTheSchedules) {
  for (const Planted& fault : kPlanted) {
    const RecordJson record = planted(fault);
    expect_cited(explained(record), record, fault.name);
  }
  expect_cited(explained(balanced()), balanced(), "balanced");
}

TEST(NextStep, IsWhatTheLimiterAsksFor) {
  const std::pair<const char*, const char*> sentences[] = {
      {"memory-bound", "Move fewer bytes"},
      {"L2-hot", "no neighbouring tile asks for less"},
      {"power-limited", "joules are time"},
      {"too few tiles", "64x128: 64 work items on 132 multiprocessors, where this one has 32"},
      {"spilling", "384 bytes do not fit"},
      {"idle tail", "where this one has 160"},
      {"tail of a timeline", "idle there for 25 % of its time"},
      {"bank conflicts", "loaded from shared"},
      {"unsettled", "1 of 1 blocks were off"}};
  for (const auto& [name, words] : sentences) {
    const auto* const fault = std::ranges::find_if(
        kPlanted,
        [&, wanted = std::string(name)](const Planted& one) { return one.name == wanted; });
    EXPECT_PRED2(contains, explained(planted(*fault)).next->sentence, words) << name;
  }
}

TEST(Explanations, SayThatAPeerRestedInItsTurns) {
  RecordJson record = balanced();
  make_unsettled(record);
  record["protocol"]["regime"] = "settled";
  record["time"]["at_work"] = 0.55;
  const Explanation explanation = explained(record);
  ASSERT_NE(explanation.limiter(), nullptr);
  EXPECT_EQ(explanation.limiter()->limiter, Limiter::unsettled);
  EXPECT_EQ(explanation.limiter()->number, "at work 55 % of a turn");
  EXPECT_PRED2(contains, explanation.next->sentence, "at work for more than 55 % of a turn");
}

TEST(NextStep, OfAHotL2IsATileThatReadsLess) {
  RecordJson record = balanced();
  make_l2_hot(record);
  record["config"]["block_m"] = 64;
  record["config"]["consumers"] = 1;
  record["config"]["ping_pong"] = 0;
  const Explanation explanation = explained(record);
  EXPECT_PRED2(contains, explanation.next->sentence, "Try the tile 128x128, whose schedule asks");
  EXPECT_PRED2(contains, explanation.next->command, "--block 128x128");
  expect_cited(explanation, record, "64 rows");
}

// Nothing counts on a processor, and older records do not say their regime.
TEST(NextStep, OfAProcessorIsNothingThatItCannotDo) {
  const RecordJson record = committed("results/cpu/quick.jsonl").front();
  const Explanation explanation = explained(record);
  EXPECT_FALSE(explanation.next);
  EXPECT_EQ(explanation.state, "hot");
}

TEST(NextStep, TakesATileThatTheSameFileHasFaster) {
  const RecordJson record = balanced();
  RecordJson faster = record;
  faster["config"]["block_n"] = 112;
  faster["time"]["median_s"] = 380e-6;
  const Explanation explanation = explained(record, {record, faster});
  ASSERT_TRUE(explanation.next);
  EXPECT_EQ(explanation.next->sentence,
            "Take the tile 128x112: the same file has it at 0.38 ms, this one at 0.4.");
  expect_cited(explanation, record, "faster");
  // It advises neither one that is as fast nor one of another regime.
  faster["time"]["median_s"] = 395e-6;
  EXPECT_PRED2(contains, explained(record, {faster}).next->sentence, "Count bank conflicts");
  faster["time"]["median_s"] = 380e-6;
  faster["protocol"]["regime"] = "settled";
  EXPECT_PRED2(contains, explained(record, {faster}).next->sentence, "Count bank conflicts");
}

TEST(TileFacts, AreTheSchedulesOwn) {
  const RecordJson record = balanced();
  const TileFacts tiles = explained(record).tiles;
  EXPECT_EQ(tiles.reason, "");
  EXPECT_EQ(tiles.own.items, 8.0 * 16 * 16);  // rows, batch, heads
  EXPECT_EQ(tiles.own.bytes, record["traffic"]["requested_read_bytes"].get<double>() +
                                 record["traffic"]["requested_write_bytes"].get<double>());
  EXPECT_EQ(tiles.own.flops, record["flops"]["executed"].get<double>());
  // The record is of an earlier kernel; the static gate's file is of this one.
  const RecordJson gate = RecordJson::parse(read_text(in_tree("results/static/nvrtc-13.0.json")));
  const RecordJson& compiled = record["compile"][0];
  const std::string unit = compiled["unit"].get<std::string>() + " sm_90a";
  EXPECT_EQ(tiles.own.shared_bytes, gate.at("units").at(unit).at("forward").at("shared_bytes"));
  const auto tile = [&](const std::string& change) {
    return *std::ranges::find(tiles.neighbours, change, &TileFact::change);
  };
  EXPECT_EQ(tile("block_m 64").items, 16.0 * 16 * 16);
  EXPECT_GT(tile("block_m 64").bytes, tiles.own.bytes);
  EXPECT_LT(tile("block_n 112").shared_bytes, tiles.own.shared_bytes);
  EXPECT_PRED2(contains, tile("block_m 192").reason, "registers");
  EXPECT_EQ(
      tile("block_n 112").command,
      "attnlab run --backend cuda --kernel v3 --dtype f16 --layout bhsd --batch 16 --heads 16 "
      "--head-dim 128 --seqlen 1024 --block 128x112 --stages 2");
  EXPECT_EQ(tiles.others.front().kernel, "v2");
}

// v1 may give a block a whole head.
TEST(TileFacts, HaveNoItemsWhereTheGridWasAnother) {
  RecordJson record = balanced();
  record["evidence"]["executed"][0]["grid"] = {33, 1, 1};
  const Explanation explanation = explained(record);
  EXPECT_EQ(explanation.waves.items, 33.0);
  EXPECT_FALSE(explanation.tiles.own.items);
  for (const TileFact& tile : explanation.tiles.neighbours) EXPECT_FALSE(tile.items);
  EXPECT_PRED2(contains, explanation.next->sentence, "Give it more at once, in batch or heads: 33");
  expect_cited(explanation, record, "another grid");
}

TEST(TileFacts, SayWhyThereAreNone) {
  RecordJson peer = balanced();
  peer["kernel"] = "torch:flash";
  EXPECT_EQ(explained(peer).tiles.reason, "what torch:flash does inside is not known");
  RecordJson other = balanced();
  other["id"] = "fwd/of/something/else";
  EXPECT_PRED2(contains, explained(other).tiles.reason, "cannot be told from its record");
  EXPECT_FALSE(explained(other).findings.empty());
}

// This goes through all records of the tree, and through a few of each file at two widths.
class CommittedRecords : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override { set_page_width(GetParam()); }
  void TearDown() override { set_page_width(std::nullopt); }
};

// Returns the text without lines of one word. A page never breaks a word, since it may be an
// address that somebody follows, as in PyTorch's message on a memory that is full.
std::string lines_of_words(const std::string& text) {
  std::istringstream lines(text);
  std::string line, rest;
  while (std::getline(lines, line)) {
    if (line.find(' ', line.find_first_not_of(' ')) == std::string::npos) continue;
    rest += line + "\n";
  }
  return rest;
}

TEST_P(CommittedRecords, AreExplainedInAScreenful) {
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(in_tree("results"))) {
    if (entry.path().extension() != ".jsonl") continue;
    std::vector<std::string> warnings;
    const Records records = read_records(entry.path(), warnings);
    const std::size_t step = records.size() / 12 + 1;
    for (std::size_t i = 0; i < records.size(); i += step) {
      const RecordJson& record = records[i];
      const RecordedPoint point = recorded_point(record, builtin_registry());
      const Explanation explanation =
          explain(record, tile_facts(point, builtin_registry(), record, records), nullptr);
      const std::string text = render_explanation(explanation, TableFormat::table);
      EXPECT_LE(std::ranges::count(text, '\n'), 45) << text;
      EXPECT_LE(width(lines_of_words(text)), GetParam()) << text;
      if (explanation.status == "ok" && explanation.next) {
        expect_cited(explanation, record, explanation.id);
      }
      ++count;
    }
  }
  EXPECT_GT(count, 300);
}

INSTANTIATE_TEST_SUITE_P(Widths, CommittedRecords, testing::Values(80, 100));

Explanation by_datasheet(const RecordJson& record) {
  const RecordedPoint point = recorded_point(record, builtin_registry());
  return explain(record, tile_facts(point, builtin_registry(), record, {}), nullptr);
}

// This much is known of these GPUs: materialized attention moves its scores through memory, and
// long products run into the power cap.
TEST(KnownRecords, AreExplainedAsIsKnown) {
  int naive = 0, settled = 0;
  for (const RecordJson& record : committed("results/nvidia-h100/eager.jsonl")) {
    if (record["kernel"] != "naive" || record["problem"]["seqlen_q"] < 4096) continue;
    if (record["problem"]["dtype"] != "f16" || record["problem"]["mask"] != "none") continue;
    const Explanation explanation = by_datasheet(record);
    ASSERT_NE(explanation.limiter(), nullptr) << record["id"];
    EXPECT_EQ(explanation.limiter()->limiter, Limiter::dram) << record["id"];
    ++naive;
  }
  for (const RecordJson& record : committed("results/nvidia-h100/fa3-settled.jsonl")) {
    if (record["kernel"] != "v3" || record["problem"]["seqlen_q"] < 8192) continue;
    const Explanation explanation = by_datasheet(record);
    EXPECT_GE(finding_of(explanation, Limiter::clock).weight, 1.0) << record["id"];
    ++settled;
  }
  EXPECT_GT(naive, 0);
  EXPECT_GT(settled, 10);
}

}  // namespace
}  // namespace attnlab
