#include "harness/report/fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/report/table.h"
#include "harness/testing/test_records.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

RecordJson counted_traffic() {
  constexpr double kMib = 1 << 20;
  return {{"requested_read_bytes", 1.0},
          {"requested_write_bytes", 1.0},
          {"l2", {{"read_bytes", 5.0 * kMib}, {"write_bytes", 2.5 * kMib}}},
          {"dram", {{"read_bytes", 3.0 * kMib}, {"write_bytes", 1.5 * kMib}}},
          {"valid", true}};
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
    ok.back()["time"]["at_work"] = 0.95;
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

}  // namespace
}  // namespace attnlab
