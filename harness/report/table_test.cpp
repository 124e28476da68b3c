#include "harness/report/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/text_table.h"
#include "harness/record/record.h"
#include "harness/record/record_file.h"
#include "harness/report/fields.h"
#include "harness/report/pivot.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Records = std::vector<RecordJson>;

// Reads 16 points: naive, v2 with two tiles and v3 (which does not exist), two masks and lengths.
Records small() {
  std::vector<std::string> warnings;
  return read_records(in_tree("tests/data/small.jsonl"), warnings);
}

// Finds the one record of v2 with this tile on a mask and length.
RecordJson& point(Records& records, const std::string& block, const std::string& mask, int seqlen) {
  for (RecordJson& record : records) {
    if (exact(find_field("block", "").read(record)) == block && record["problem"]["mask"] == mask &&
        record["problem"]["seqlen_q"] == seqlen) {
      return record;
    }
  }
  throw std::out_of_range(block);
}

std::string value(const RecordJson& record, const std::string& field) {
  return exact(find_field(field, "").read(record));
}

TEST(Fields, ReadTheRecord) {
  Records records = small();
  add_speedups(records, "naive");
  RecordJson& record = point(records, "32x32", "causal", 128);
  // There are 32 heads-by-dims, 128 * 129 / 2 visible pairs, 2 heads; a launch takes 0.06 ms.
  const double flops = 4.0 * (128 * 129 / 2.0) * 32 * 2;
  EXPECT_DOUBLE_EQ(std::stod(value(record, "time_ms")), 0.06);
  EXPECT_DOUBLE_EQ(std::stod(value(record, "gflops")), flops / 0.06e-3 / 1e9);
  EXPECT_DOUBLE_EQ(std::stod(value(record, "tflops")), flops / 0.06e-3 / 1e12);
  EXPECT_DOUBLE_EQ(std::stod(value(record, "tflops_paper")), 2.0 * 128 * 128 * 32 * 2 / 0.06e9);
  EXPECT_DOUBLE_EQ(std::stod(value(record, "tokens_per_s")), 128 / 0.06e-3);
  EXPECT_DOUBLE_EQ(std::stod(value(record, "speedup")), 2.0);
  EXPECT_DOUBLE_EQ(std::stod(value(record, "ci")), 4.0);
  EXPECT_EQ(value(record, "ratio_to_twin"), "1.25");
  EXPECT_EQ(value(record, "config"), "block_m=32,block_n=32");
  EXPECT_EQ(value(record, "seqlen"), "128");
  EXPECT_EQ(value(record, "inputs_mib"),
            std::to_string(3 * 128 * 32 * 2 * 4 / 1048576.0).substr(0, 7));
  EXPECT_EQ(value(record, "commit"), "0123456789ab");
  record["problem"]["seqlen_k"] = 64;
  EXPECT_EQ(value(record, "seqlen"), "");
}

// Reads three passes over given lengths (naive, v2 deterministic or not, minimal, which has no
// backward), and a block mask (v1 with several configs, v3).
Records passes() {
  std::vector<std::string> warnings;
  return read_records(in_tree("tests/data/passes.jsonl"), warnings);
}

RecordJson counted_traffic() {
  constexpr double kMib = 1 << 20;
  return {{"requested_read_bytes", 1.0},
          {"requested_write_bytes", 1.0},
          {"l2", {{"read_bytes", 5.0 * kMib}, {"write_bytes", 2.5 * kMib}}},
          {"dram", {{"read_bytes", 3.0 * kMib}, {"write_bytes", 1.5 * kMib}}},
          {"valid", true}};
}

TEST(Fields, EveryOneIsReadableAndShown) {
  const Records records = small();
  for (const FieldHelp& help : field_help()) {
    TableOptions options;
    options.values = {help.name};
    options.where = {{"status", {"ok"}}};
    options.format = TableFormat::csv;
    EXPECT_PRED2(contains, render_table(records, options), help.name);
    options.format = TableFormat::table;
    options.cols = {"kernel", "block"};
    options.rows = {"mask", "seqlen"};
    EXPECT_PRED2(contains, render_table(records, options), "seqlen");
    EXPECT_NE(std::string(help.summary), "") << help.name;
    bool known = false;  // some record has a value
    Records ok = records;
    for (const RecordJson& record : passes()) ok.push_back(record);
    ok.back()["input_file"] = {{"path", "qkv.st"}, {"fnv1a", "0123456789abcdef"}};
    ok.back()["problem"]["softmax_scale"] = 0.7;
    ok.back()["config_asked"] = ok.back()["config"];
    ok.back()["config"]["tf32"] = 1;
    ok.back()["config"]["warps"] = 4;
    ok.back()["protocol"]["regime"] = "settled";
    ok.back()["time"]["telemetry"] = {
        {"median_clock_hz", 1.5e9}, {"cycles", 3e6}, {"settled", true}};
    ok.back()["quantise"] = {{"median_s", 1e-4}, {"bytes", 1000}};
    ok.back()["energy"] = {
        {"joules_per_call", 0.5}, {"picojoules_per_flop", 1.5}, {"mean_power_w", 600.0}};
    ok.back()["roof"] = {{"intensity_flop_per_byte", 1.5},
                         {"dram_intensity_flop_per_byte", 1.25},
                         {"binds", "compute"},
                         {"percent_of_roof", 50.0}};
    ok.back()["traffic"] = counted_traffic();
    ok.back()["counters"] = {{"sm_read_bytes", 4096.0},
                             {"tensor_active_percent", 12.5},
                             {"shared_wavefronts", 900.0},
                             {"shared_load_conflicts", 8.0},
                             {"shared_store_conflicts", 0.0}};
    ok.back()["problem"]["quantisation"] = {
        {"quant", "block"}, {"quant_v", "channel"}, {"rotate", 1}, {"output", "f16"}};
    ok.back()["verify"][0]["rmse_unquantised"] = 0.25;
    ok.back()["verify"][0]["rms_to_twin"] = 0.5;
    ok.back()["verify"][0]["coverage"] = 0.5;
    ok.back()["cache_claim"] = {{"verdict", "proved"}};
    ok.back()["config"].update(
        {{"consumers", 2}, {"producer", 1}, {"overlap", 1}, {"ping_pong", 0}, {"promote", 1}});
    ok.back()["evidence"] = {
        {"executed", {{{"symbol", "softmax"}, {"launches", 1}, {"seconds", 1e-3}}}}};
    ok.back()["compile"] = {{{"entries", {{{"registers", 168}, {"dynamic_shared_bytes", 2048}}}}}};
    ok.back()["time"]["rounds_asked"] = 3;
    add_speedups(ok, "naive");
    for (const RecordJson& record : ok) {
      known |= !find_field(help.name, "").read(record).is_null();
    }
    EXPECT_TRUE(known) << help.name;
  }
}

TEST(Fields, WhatKernelsTakeIsTheMostOfAll) {
  const auto kernel = [](int registers, int stored, int loaded, int fixed, int dynamic) {
    return RecordJson{{"registers", registers},
                      {"spill_store_bytes", stored},
                      {"spill_load_bytes", loaded},
                      {"static_shared_bytes", fixed},
                      {"dynamic_shared_bytes", dynamic}};
  };
  const RecordJson record = {
      {"compile",
       {{{"entries", {kernel(32, 0, 0, 1024, 0), kernel(168, 8, 4, 512, 2048)}}},
        {{"entries", {kernel(40, 0, 0, 0, 1024)}}}}}};
  EXPECT_EQ(value(record, "registers"), "168");
  EXPECT_EQ(value(record, "spill_bytes"), "12");
  EXPECT_EQ(value(record, "shared_kib"), "2.5");
  EXPECT_EQ(value({{"compile", nullptr}}, "registers"), "");
  EXPECT_EQ(value({{"compile", {1, "two"}}}, "registers"), "");
}

TEST(Fields, CountedBytesAreThoseOfCountersThatPassedTheirSelfTest) {
  const auto value_of = [](const RecordJson& traffic, const char* name) {
    return find_field(name, "").read(RecordJson{{"traffic", traffic}});
  };
  const RecordJson traffic = counted_traffic();
  EXPECT_EQ(value_of(traffic, "l2_mib"), 7.5);
  EXPECT_EQ(value_of(traffic, "dram_mib"), 4.5);
  EXPECT_EQ(value_of(traffic, "dram_read_mib"), 3.0);
  EXPECT_EQ(value_of(traffic, "dram_write_mib"), 1.5);
  RecordJson invalid = traffic, older = traffic, lacking = traffic;
  invalid["valid"] = false;
  older.erase("valid");
  lacking["l2"] = lacking["dram"] = nullptr;
  for (const RecordJson& other : {invalid, older, lacking}) {
    for (const char* name : {"l2_mib", "dram_mib", "dram_read_mib", "dram_write_mib"}) {
      EXPECT_TRUE(value_of(other, name).is_null()) << name << other;
    }
  }
}

TEST(Fields, SpeedupsAreBetweenRunsOfTheSameFile) {
  const auto speedup_of_v2 = [](const char* hash) {
    Records records = small();
    for (RecordJson& record : records) {
      const char* own = record["kernel"] == "naive" ? "1" : hash;
      record["input_file"] = {{"path", "qkv.st"}, {"fnv1a", own}};
    }
    add_speedups(records, "naive");
    return find_field("speedup", "").read(point(records, "32x32", "causal", 128));
  };
  EXPECT_TRUE(speedup_of_v2("1").is_number());
  EXPECT_TRUE(speedup_of_v2("2").is_null());
}

TEST(Fields, AnErrorThatIsNoNumberIsTheWorst) {
  Records records = small();
  RecordJson& record = point(records, "32x32", "causal", 128);
  record["verify_timed"][0]["ratio_to_twin"] = "nan";
  EXPECT_EQ(value(record, "ratio_to_twin"), "nan");
  record["verify"][0]["rms_to_twin"] = 0.75;
  record["verify_timed"][0]["rms_to_twin"] = 0.5;
  EXPECT_EQ(value(record, "rms_to_twin"), "0.75");
}

// The peer's figures are those of an H200; its record has no bytes of inputs.
TEST(Fields, APeersPeakHasTheInputsToo) {
  std::vector<std::string> warnings;
  Records records = read_records(in_tree("results/nvidia-h200/eager.jsonl"), warnings);
  RecordJson peer = *std::ranges::find_if(records, [](const RecordJson& record) {
    return record["kernel"] == "torch:eager" && record["problem"]["pass"] == "fwd" &&
           record["problem"]["seqlen_q"] == 2048;
  });
  const auto peak = [&] { return find_field("peak_mib", "").read(peer); };
  EXPECT_EQ(peak(), 2176.0);  // four matrices of 512 MiB, four tensors of 32
  peer["problem"]["pass"] = "bwd";
  EXPECT_EQ(peak(), 2176.0 + 32.0);
  peer["problem"]["num_heads_kv"] = 2;
  EXPECT_EQ(peak(), 2176.0 + 32.0 - 48.0);
  // The two packed entries have 1/8 of the rows of q and dO, and 1/4 of those of k and v.
  const double tokens = peer["problem"]["batch"].get<double>() * 2048.0;
  peer["problem"]["layout"] = "packed";
  peer["problem"]["lengths"]["queries"] = {tokens / 16, tokens / 16};
  peer["problem"]["lengths"]["keys"] = {tokens / 8, tokens / 8};
  const double dense = 2 * 32.0 + 2 * 8.0;
  EXPECT_EQ(peak(), 2176.0 + 32.0 - 48.0 - dense + 2 * 32.0 / 8 + 2 * 8.0 / 4);
  peer["peer"]["peak_bytes"] = nullptr;
  EXPECT_TRUE(peak().is_null());
}

TEST(Fields, OfABackward) {
  const Records records = passes();
  const auto found = std::find_if(records.begin(), records.end(), [](const RecordJson& record) {
    return record["kernel"] == "v2" && record["problem"]["pass"] == "bwd" &&
           record["config"]["deterministic"] == 1;
  });
  ASSERT_NE(found, records.end());
  const RecordJson& record = *found;
  EXPECT_EQ(value(record, "worst_tensor"), "dk");
  EXPECT_EQ(value(record, "ratio_to_twin"), "1.375");
  EXPECT_EQ(value(record, "lengths"), "40+64");
  EXPECT_EQ(value(record, "deterministic"), "1");
  EXPECT_EQ(value(record, "stages"), "");
  // A visible pair costs 10 FLOPs an element of the head: rows 0 to 63 of 2 heads see keys up to
  // their own, and in the first entry no more than 40.
  constexpr int kPairs = 64 * 65 + 40 * 41 + 2 * 24 * 40;
  EXPECT_DOUBLE_EQ(std::stod(value(record, "gflops")), 10.0 * kPairs * 16 / 3.75e-4 / 1e9);
}

TEST(Fields, GivenLengthsShowQueriesWhereTheyDiffer) {
  RecordJson record = passes().front();
  record["problem"]["lengths"] = {
      {"kind", "packed"}, {"given", true}, {"queries", {3, 4, 0}}, {"keys", {5, 4, 7}}};
  EXPECT_EQ(value(record, "lengths"), "3x5+4+0x7");
  record["problem"]["lengths"]["given"] = false;
  EXPECT_EQ(value(record, "lengths"), "");
}

TEST(Fields, NumbersHaveFourDigits) {
  const Field& time = find_field("time_ms", "");
  EXPECT_EQ(display(time, 0.00012), "0.0001");
  EXPECT_EQ(display(time, 0.5), "0.5000");
  EXPECT_EQ(display(time, 1.23456), "1.235");
  EXPECT_EQ(display(time, 123.456), "123.5");
  EXPECT_EQ(display(time, 123456.7), "123457");
  EXPECT_EQ(display(time, 0), "0");
  EXPECT_EQ(display(time, nullptr), "-");
}

TEST(Table, SaysWherePointsAreOfSeveralRuns) {
  const auto table = [](const Records& records) {
    std::string text = render_table(records, {});
    std::ranges::replace(text, '\n', ' ');
    return text;
  };
  Records records = small();
  EXPECT_FALSE(contains(table(records), " runs")) << "older records of one commit do not tell";
  records.front()["build"]["commit"] = "fedcba987654";
  EXPECT_PRED2(contains, table(records), "The points are of 2 runs of 2 commits: times of");
  records = small();
  for (RecordJson& record : records) record["run"] = "0123456789abcdef";
  EXPECT_FALSE(contains(table(records), " runs"));
  records.back()["run"] = "fedcba9876543210";
  EXPECT_PRED2(contains, table(records), "The points are of 2 runs: times of different runs");
}

TEST(Table, NothingFromNothing) { EXPECT_EQ(render_table({}, {}), "no records\n"); }

TEST(Table, UnknownFieldsAreSuggested) {
  TableOptions options;
  options.rows = {"seqlne"};
  EXPECT_EQ(usage_error([&] { render_table(small(), options); }),
            "--rows: unknown field 'seqlne'; did you mean 'seqlen'?");
}

TEST(Table, DifferentPointsNeverShareACell) {
  TableOptions options;
  options.rows = {"seqlen"};
  EXPECT_PRED2(contains, usage_error([&] { render_table(small(), options); }),
               "they differ in mask; name that in --rows or --cols");
  options.where = {{"mask", {"causal"}}};
  EXPECT_EQ(usage_error([&] { render_table(small(), options); }), "");
  options.rows = {"seqlen", "kernel"};
  options.cols = {"kernel"};
  EXPECT_NE(usage_error([&] { render_table(small(), options); }), "");
  options.where = {{"mask", {"none of them"}}};
  EXPECT_PRED2(contains, usage_error([&] { render_table(small(), options); }), "no record is left");
}

TEST(Table, TheLastRecordOfAPointCounts) {
  Records records = small();
  Records again = small();
  RecordJson& record = point(again, "32x32", "none", 64);
  record["time"]["median_s"] = 77e-3;
  record["build"]["commit"] = "later";
  records.push_back(record);
  const std::string table = render_table(records, {});
  EXPECT_PRED2(contains, table, "77.00");
  EXPECT_PRED2(contains, table, "16 points:");
  EXPECT_PRED2(contains, table, "1 earlier record of the same points left out");
  TableOptions options;
  options.format = TableFormat::csv;
  const std::string csv = render_table(records, options);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 17);
  options.format = TableFormat::table;
  options.cols = {"kernel", "commit"};  // now they are different columns
  EXPECT_FALSE(contains(render_table(records, options), "earlier record"));
}

TEST(Table, NumbersAscendAndTextKeepsItsOrder) {
  Records records = small();
  std::reverse(records.begin(), records.end());  // 128 before 64, causal before none
  TableOptions options;
  options.rows = {"seqlen", "mask"};
  options.where = {{"kernel", {"naive"}}};
  options.format = TableFormat::json;
  const auto rows = RecordJson::parse(render_table(records, options));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["seqlen"], 64);
  EXPECT_EQ(rows[0]["mask"], "causal");
  EXPECT_EQ(rows[1]["mask"], "none");
  EXPECT_EQ(rows[3]["seqlen"], 128);
}

TEST(Table, ShipsItsReasons) {
  const std::string table = render_table(small(), {});
  EXPECT_PRED2(contains, table, "[1] ");
  EXPECT_PRED2(contains, table, "no kernel 'v3' on backend cpu; there are: naive, v2");
  EXPECT_PRED2(contains, table, "oom [");
  EXPECT_PRED2(contains, table, "failed [");
  EXPECT_PRED2(contains, table, "skipped [");
  EXPECT_LE(width(table), kPageWidth);
}

TEST(Table, ADefaultTableThatIsTooWideListsPoints) {
  Records records = small();
  const std::size_t count = records.size();
  for (std::size_t i = 0; i < count; ++i) {
    for (const char* name : {"one", "two", "three"}) {
      RecordJson other = records[i];
      other["kernel"] = name;
      records.push_back(other);
    }
  }
  const std::string table = render_table(records, {});
  EXPECT_LE(width(table), kPageWidth);
  EXPECT_PRED2(contains, table, "kernel");
  EXPECT_GT(std::count(table.begin(), table.end(), '\n'), 60);
}

// Five kernels do not fit with all three values: time alone does.
TEST(Table, ADefaultTableDropsValuesBeforeItListsPoints) {
  Records records = small();
  std::erase_if(records, [&](const RecordJson& record) {
    return record["kernel"] == "v3" || value(record, "block") == "64x64";
  });
  const std::size_t count = records.size();
  for (std::size_t i = 0; i < count; ++i) {
    for (const char* name : {"one", "two", "three"}) {
      RecordJson other = records[i];
      other["kernel"] = name;
      other["key"] = nullptr;
      records.push_back(other);
    }
  }
  std::erase_if(records, [&](const RecordJson& record) {
    return record["kernel"] != "naive" && value(record, "block").empty();
  });
  const std::string table = render_table(records, {});
  EXPECT_LE(width(table), kPageWidth);
  EXPECT_PRED2(contains, table, "-- three");
  EXPECT_PRED2(contains, table, "ms");
  EXPECT_FALSE(contains(table, "speedup")) << table;
  EXPECT_LT(std::count(table.begin(), table.end(), '\n'), 20) << table;
}

TEST(Table, OnlyWhatWasQuantisedHasAColumnOfIt) {
  Records records = small();
  const TableOptions options = {.rows = {"mask", "seqlen"}, .cols = {"kernel", "block"}};
  const std::string without = render_table(records, options);
  EXPECT_EQ(without.find("quantise"), std::string::npos) << without;
  point(records, "32x32", "causal", 128)["quantise"] = {{"median_s", 1.25e-3}, {"bytes", 1000}};
  const std::string with = render_table(records, options);
  const std::size_t title = with.find("quantise ms");
  ASSERT_NE(title, std::string::npos) << with;
  EXPECT_EQ(with.find("quantise ms", title + 1), std::string::npos) << with;
  EXPECT_NE(with.find("1.25"), std::string::npos) << with;
}

TEST(Table, ConfigsThatVaryTellColumnsApart) {
  Records records = passes();
  std::erase_if(records, [&](const RecordJson& record) { return record["kernel"] != "v2"; });
  std::string table = render_table(records, {});
  EXPECT_PRED2(contains, table, "v2 deterministic=0");
  EXPECT_PRED2(contains, table, "v2 deterministic=1");
  records = passes();
  std::erase_if(records, [&](const RecordJson& record) { return record["kernel"] != "v1"; });
  table = render_table(records, {});
  EXPECT_PRED2(contains, table, "v1 32x32 sram=2048");
  records.front()["config"]["mystery"] = 1;
  records.push_back(records.front());
  records.back()["config"]["mystery"] = 2;
  EXPECT_PRED2(contains, render_table(records, {}), "mystery=2");
}

// Makes records of v2 at two lengths: it chose the tile 64x64 at the short, 32x32 at the long one.
Records chosen_tiles() {
  Records records = small();
  Records chosen = {point(records, "64x64", "causal", 64), point(records, "32x32", "causal", 128)};
  for (RecordJson& record : chosen) record["config_asked"] = {{"block_m", 0}, {"block_n", 0}};
  return chosen;
}

RecordJson with_tile(RecordJson record, int block_m, int block_n) {
  record["config"] = {{"block_m", block_m}, {"block_n", block_n}};
  record["config_asked"] = nullptr;
  return record;
}

TEST(Table, WhatAKernelChoseDoesNotTellItsColumnsApart) {
  Records records = chosen_tiles();
  const std::string table = render_table(records, {});
  EXPECT_PRED2(contains, table, "-- v2 --");
  EXPECT_FALSE(contains(table, "32x32")) << table;
  EXPECT_PRED2(contains, render_table(records, {.values = {"block"}}), "64x64");
  EXPECT_PRED2(contains, render_table(records, {.cols = {"kernel", "block"}}), "v2 64x64");
  for (RecordJson& record : records) record.erase("config_asked");
  EXPECT_PRED2(contains, render_table(records, {}), "v2 64x64") << "older records";
}

TEST(Table, WhatWasAskedForTellsColumnsApart) {
  Records records = chosen_tiles();
  records.push_back(with_tile(records[0], 16, 16));
  records.push_back(with_tile(records[1], 16, 16));
  // Both passes in one have a tile each, so what is open stays open.
  records.push_back(with_tile(records[0], 0, 0));
  records.back()["id"] = "fwdbwd";
  records.back()["problem"]["pass"] = "fwdbwd";
  TableOptions options;
  options.cols = {"kernel"};
  options.format = TableFormat::json;
  const RecordJson rows = RecordJson::parse(render_table(records, options));
  ASSERT_EQ(rows.size(), 3U);
  for (const RecordJson& row : rows) {
    EXPECT_TRUE(row["cells"][0]["block"].is_null()) << row;
    if (row["pass"] == "fwdbwd") continue;
    EXPECT_EQ(row["cells"][1]["block"], "16x16") << row;
  }
}

// Records of another device, say, are both shown, told apart by any difference that there is.
TEST(Table, DifferentChoicesForOneProblemShareNoCell) {
  Records records = chosen_tiles();
  records.push_back(records.front());
  records.back()["config"] = {{"block_m", 16}, {"block_n", 16}};
  records.back()["device"]["name"] = "another";
  const std::string table = render_table(records, {});
  EXPECT_PRED2(contains, table, "v2 64x64");
  EXPECT_PRED2(contains, table, "v2 16x16");
  TableOptions options;
  options.cols = {"kernel", "device"};
  const std::string by_device = render_table(records, options);
  EXPECT_PRED2(contains, by_device, "v2 another");
  EXPECT_FALSE(contains(by_device, "16x16")) << by_device;
}

// Gives every time an interval of so many percent to a side.
Records with_intervals(Records records, double percent) {
  for (RecordJson& record : records) {
    if (record["time"].is_null()) continue;
    const double half = record["time"]["median_s"].get<double>() * percent / 100.0;
    record["time"]["ci95_s"] = {0.0, 2.0 * half};
  }
  return records;
}

// The times of naive did not settle, so neither did what is compared with them.
TEST(Table, WhatDidNotSettleIsMarkedAndCounted) {
  Records records = with_intervals(small(), 1.0);
  for (RecordJson& record : records) {
    if (record["time"].is_null()) continue;
    record["time"]["telemetry"] = {{"settled", record["kernel"] != "naive"}};
  }
  const std::string table = render_table(records, {});
  EXPECT_PRED2(contains, table, " !0.0600   !17.48  0.0300    34.95    !2.00 ");
  EXPECT_PRED2(contains, table, "! 4 of 9 points did not settle: ");
  TableOptions errors;
  errors.values = {"ratio_to_twin"};
  EXPECT_FALSE(contains(render_table(records, errors), "did not settle"));
}

// Records of older versions say which share was compared, and not how many rows.
TEST(Table, WhatWasVerifiedBySamplesIsSaid) {
  Records records = small();
  std::erase_if(records, [](const RecordJson& record) { return record["status"] != "ok"; });
  EXPECT_FALSE(contains(render_table(records, {}), "sampled"));
  const auto verdict = [](const char* tensor, double coverage) {
    return RecordJson{{"tensor", tensor}, {"coverage", coverage}, {"ratio_to_twin", 1.0}};
  };
  records.at(0)["verify"] = RecordJson::array({verdict("o", 1.0), verdict("dk", 0.25)});
  records.at(0)["verify_timed"] = RecordJson::array({verdict("o", 0.5)});
  TableOptions options;
  options.values = {"ratio_to_twin", "sampled"};
  const std::string share = "25 % of the keys of dk";
  EXPECT_PRED2(contains, render_table(records, options), "1.00  " + share);
  EXPECT_PRED2(contains, render_table(records, options),
               "sampled: " + share + " at the least; 1 of 9 points was not compared whole.");
  records.at(1)["verify"] = RecordJson::array({verdict("lse", 0.125)});
  records.at(1)["verify"][0].update({{"compared", 512}, {"rows", 4096}});
  EXPECT_PRED2(contains, render_table(records, {}),
               "sampled: 512 of 4096 rows of lse at the least; 2 of 9 points were not compared");
}

TEST(Table, RetriesOfTheClockAreSaid) {
  Records records = small();
  for (RecordJson& record : records) {
    if (!record["time"].is_null()) record["time"]["retries"] = record["kernel"] == "v2" ? 2 : 0;
  }
  EXPECT_PRED2(contains, render_table(records, {}),
               "The clock was started anew 10 times within the samples of 5 points: ");
  for (RecordJson& record : records) {
    if (!record["time"].is_null()) record["time"]["retries"] = nullptr;  // a peer's
  }
  EXPECT_FALSE(contains(render_table(records, {}), "anew"));
}

TEST(Table, AMedianThatIsNotFirmIsMarkedAndNoNumberMoves) {
  const std::string firm = render_table(with_intervals(small(), 2.0), {});
  EXPECT_FALSE(contains(firm, "~")) << firm;
  std::string marked = render_table(with_intervals(small(), 2.01), {});
  EXPECT_PRED2(contains, marked, " ~0.0600   ~17.48 ~0.0300   ~34.95    ~2.00 ");
  EXPECT_PRED2(contains, marked,
               "~ not firm: the 95 % interval of its median passes +-2 % (the widest is +-2.01 %)");
  EXPECT_LE(width(marked), kPageWidth);
  const std::size_t note = marked.find("\n~ ") + 1;
  marked.erase(note, marked.find("16 points") - note);
  std::replace(marked.begin(), marked.end(), '~', ' ');
  EXPECT_EQ(marked, firm);
  const TableOptions markdown{.format = TableFormat::markdown};
  EXPECT_PRED2(contains, render_table(small(), markdown), "| ~0.0600 | ~17.48 |");
  for (const TableFormat format : {TableFormat::csv, TableFormat::json}) {
    EXPECT_FALSE(contains(render_table(small(), {.format = format}), "~"));
  }
}

TEST(Table, AnIntervalThatNobodyKnowsIsNotFirm) {
  const TableOptions times{.rows = {"mask", "seqlen"}, .values = {"time_ms"}};
  const auto is_marked = [&](const Records& records) {
    return contains(render_table(records, times), "~0.0300");
  };
  Records records = with_intervals(small(), 0.5);
  RecordJson& time = point(records, "32x32", "none", 64)["time"];
  EXPECT_FALSE(is_marked(records));
  time["ci95_s"] = {"nan", "nan"};
  EXPECT_TRUE(is_marked(records));
  time["ci95_s"] = {0.00003, 0.00003};
  time["n"] = 1;
  EXPECT_TRUE(is_marked(records)) << "one sample says nothing of its spread";
  EXPECT_PRED2(contains, render_table(records, times), "(one sample has none)");
}

TEST(Table, ASpeedupIsAsFirmAsBothOfItsTimes) {
  Records records = with_intervals(small(), 0.5);
  for (RecordJson& record : records) {
    if (record["kernel"] == "naive" && !record["time"].is_null()) {
      record["time"]["ci95_s"] = {0.0, 1.0};
    }
  }
  const std::string table =
      render_table(records, {.values = {"time_ms", "speedup"}, .where = {{"kernel", {"v2"}}}});
  EXPECT_PRED2(contains, table, " 0.0300    ~2.00 ");
}

TEST(Table, RoundsThatALimitCutShortAreSaid) {
  Records records = with_intervals(small(), 0.5);
  RecordJson& time = point(records, "32x32", "none", 64)["time"];
  time["n"] = 4;
  time["rounds_asked"] = 4;
  EXPECT_FALSE(contains(render_table(records, {}), "(4 of"));
  time["rounds_asked"] = 30;
  const std::string table = render_table(records, {});
  EXPECT_PRED2(contains, table, "0.0300 (4 of 30)    34.95 ");
  EXPECT_PRED2(contains, table, "(n of N): n of N rounds; then the time limit");
  EXPECT_PRED2(contains, render_table(records, {.values = {"gflops"}}), "34.95 (4 of 30)");
}

TEST(Table, ASpeedupOverAnotherNamesIt) {
  Records records = small();
  const std::string table = render_table(records, {.speedup_over = "v2"});
  EXPECT_PRED2(contains, table, "over v2");
  EXPECT_FALSE(contains(table, "speedup")) << table;
  const auto ratio = [&](const std::string& block) {
    return value(point(records, block, "none", 64), "speedup");
  };
  add_speedups(records, "v2");
  EXPECT_EQ(ratio("64x64"), "1") << "the fastest of its tiles is what all are compared with";
  EXPECT_DOUBLE_EQ(std::stod(ratio("32x32")), 0.025 / 0.030);
  EXPECT_EQ(value(point(records, "64x64", "none", 64), "speedup_over"), "v2");
}

TEST(Table, OfATimeTakenAgainTheLastCountsAndOfProtocolsTheSame) {
  Records records = small();
  const auto speedup = [](Records all) {
    add_speedups(all, "naive");
    return value(point(all, "32x32", "none", 64), "speedup");
  };
  const RecordJson naive = *std::find_if(records.begin(), records.end(), [](const auto& record) {
    return record["kernel"] == "naive" && record["problem"]["seqlen_q"] == 64;
  });
  EXPECT_EQ(speedup(records), "2");
  records.push_back(naive);
  records.back()["time"]["median_s"] = 9e-5;
  EXPECT_EQ(speedup(records), "3");
  records.push_back(naive);
  records.back()["protocol"]["cache"] = "cold";
  records.back()["time"]["median_s"] = 12e-5;
  EXPECT_EQ(speedup(records), "3");
  records.back()["protocol"]["cache"] = "hot";
  EXPECT_EQ(speedup(records), "4");
}

TEST(Table, ABaseWithoutATimeIsSaidAndOneThatIsNotThereIsRefused) {
  EXPECT_PRED2(contains, render_table(small(), {.speedup_over = "v3"}),
               "\nNo speedup over v3: it has no time on these cases.\n");
  const std::string error = usage_error([] { render_table(small(), {.speedup_over = "navie"}); });
  EXPECT_EQ(error,
            "--speedup-over: 'navie' is none of the kernels and peers here; did you mean 'naive'?");
}

// The rate goes first of three values: the ratio was asked for.
TEST(Table, ASpeedupThatWasAskedForStaysOnANarrowPage) {
  Records records = small();
  std::erase_if(records, [](const RecordJson& record) { return record["kernel"] == "v3"; });
  const std::size_t count = records.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (value(records[i], "block") != "32x32") continue;
    records.push_back(records[i]);
    records.back()["kernel"] = "another";
  }
  const std::string table = render_table(records, {.speedup_over = "naive"});
  EXPECT_LE(width(table), kPageWidth);
  EXPECT_PRED2(contains, table, "over naive");
  EXPECT_FALSE(contains(table, "GFLOP/s")) << table;
}

// What a peer does not compute is part of a comparison with it.
TEST(Table, WhatPeersComputeIsSaid) {
  Records records = small();
  EXPECT_EQ(render_table(records, {}).find("lse"), std::string::npos);
  for (RecordJson& record : records) {
    if (record["kernel"] == "naive") record["kernel"] = "torch:cudnn";
  }
  std::string text = render_table(records, {});
  std::ranges::replace(text, '\n', ' ');
  EXPECT_NE(text.find("torch:cudnn: o, and lse only with gradients"), std::string::npos) << text;
}

TEST(Table, WhoTransposesVOfE4m3IsSaid) {
  Records records = small();
  const auto is_said = [&] {
    std::string text = render_table(records, {});
    std::ranges::replace(text, '\n', ' ');
    return contains(text, "Of e4m3 they get V as it lies");
  };
  for (RecordJson& record : records) record["problem"]["dtype"] = "e4m3";
  EXPECT_FALSE(is_said()) << "there is no peer";
  for (RecordJson& record : records) {
    if (record["kernel"] == "naive") record["kernel"] = "py:a.py:f";
  }
  EXPECT_TRUE(is_said());
  for (RecordJson& record : records) record["problem"]["dtype"] = "f32";
  EXPECT_FALSE(is_said()) << "there is no e4m3";
}

TEST(Table, LargeRatesAreTeraflops) {
  Records records = small();
  EXPECT_PRED2(contains, render_table(records, {}), "GFLOP/s");
  point(records, "32x32", "none", 64)["time"]["median_s"] = 1e-9;
  EXPECT_PRED2(contains, render_table(records, {}), "TFLOP/s");
}

TEST(Table, OtherUnitsAddNoDigits) {
  Records all = small();
  for (RecordJson& record : all) {
    if (record["time"].is_object()) record["time"]["median_s"] = 0.000698127;
  }
  for (const TableFormat format : {TableFormat::csv, TableFormat::json}) {
    TableOptions options;
    options.values = {"time_ms"};
    options.format = format;
    const std::string text = render_table(all, options);
    EXPECT_PRED2(contains, text, "0.698127");
    EXPECT_FALSE(contains(text, "0.69812699")) << text;
  }
}

TEST(Table, JsonIsParsableAndExact) {
  TableOptions options;
  options.format = TableFormat::json;
  const auto points = RecordJson::parse(render_table(small(), options));
  ASSERT_EQ(points.size(), 16u);
  EXPECT_EQ(points[0]["status"], "unsupported");
  EXPECT_TRUE(points[0]["time_ms"].is_null());
  options.rows = {"mask", "seqlen"};
  options.values = {"time_ms"};
  const auto rows = RecordJson::parse(render_table(small(), options));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["mask"], "none");
  EXPECT_EQ(rows[0]["cells"].size(), 4u);
  EXPECT_EQ(rows[0]["cells"][1]["block"], "32x32");
  EXPECT_DOUBLE_EQ(rows[0]["cells"][1]["time_ms"].get<double>(), 0.03);
}

}  // namespace
}  // namespace attnlab
