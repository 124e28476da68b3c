#include "harness/report/ncu_import.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "harness/testing/ncu_page.h"
#include "harness/testing/test_support.h"
#include "kernels/api/sha256.h"

namespace attnlab {
namespace {

using Launch = std::vector<NcuColumn>;

RecordJson executed(const std::string& symbol, int launches = 1) {
  return {{"symbol", symbol},
          {"grid", {1, 1, 1}},
          {"block", {1, 1, 1}},
          {"registers", 40},
          {"launches", launches}};
}

// Returns a point of these kernels whose counters agree with one launch of ncu_page.h.
RecordJson record(const std::string& key, const std::vector<RecordJson>& kernels) {
  const RecordJson entry = {{"name", "a"}, {"threads", 1}, {"registers", 40}};
  const RecordJson unit = {{"entries", RecordJson::array({entry})}};
  return {{"key", key},
          {"status", "ok"},
          {"kernel", "v3"},
          {"backend", "cuda"},
          {"problem", {{"dtype", "f16"}}},
          {"flops", {{"executed", 2048}}},
          {"traffic",
           {{"compulsory_bytes", 1505},
            {"requested_read_bytes", 3200},
            {"requested_write_bytes", 1600},
            {"l2", {{"read_bytes", 2880.0}, {"write_bytes", 1600.0}}},
            {"dram", {{"read_bytes", 1005.0}, {"write_bytes", 500.0}}}}},
          {"counters", {{"sm_read_bytes", 3200.0}, {"wgmma_flops", 2048.0}}},
          {"compile", RecordJson::array({unit})},
          {"evidence", {{"executed", kernels}}},
          {"device", {{"name", "H200"}, {"cuda", {{"compute_capability", 90}}}}}};
}

RecordJson record_of_a() { return record("A", {executed("a")}); }

std::vector<RecordJson> import(const std::vector<Launch>& launches,
                               const std::vector<RecordJson>& records) {
  return import_ncu_report(ncu_page(launches), "r.csv", records);
}

RecordJson profile_of(const Launch& launch, const RecordJson& of = record_of_a()) {
  return import({launch}, {of}).at(0).at("profile");
}

// Lists what differs, with who says the other value.
std::vector<std::string> differing(const RecordJson& profile) {
  std::vector<std::string> found;
  for (const RecordJson& line : profile.at("compared")) {
    if (!line.at("differs").get<bool>()) continue;
    found.push_back(line.at("what").get<std::string>() + " " +
                    line.at("source").get<std::string>());
  }
  return found;
}

std::string error_of(const std::vector<Launch>& launches, const std::vector<RecordJson>& records) {
  return usage_error([&] { import(launches, records); });
}

TEST(NcuImport, FillsTheBlockOfARecord) {
  const std::string page = ncu_page({ncu_launch("a")});
  const RecordJson before = record_of_a();
  RecordJson after = import_ncu_report(page, "r.csv", {before}).at(0);
  const RecordJson profile = after.at("profile");
  EXPECT_EQ(profile.at("report"), "r.csv");
  EXPECT_EQ(profile.at("report_sha256"), sha256(page));
  EXPECT_EQ(profile.at("dram").dump(), R"({"read_bytes":1005.0,"write_bytes":500.0})");
  EXPECT_EQ(profile.at("l2").dump(), R"({"read_bytes":2880.0,"write_bytes":1600.0})");
  EXPECT_EQ(profile.at("sm_read_bytes"), 3200.0);
  EXPECT_EQ(profile.at("tensor_active_percent"), 50.0);
  EXPECT_EQ(profile.at("wgmma_flops"), 2048.0);
  EXPECT_EQ(profile.at("mma_sync_flops"), 0.0);
  ASSERT_EQ(profile.at("kernels").size(), 1U);
  EXPECT_EQ(profile.at("kernels")[0].dump(),
            R"({"symbol":"a","grid":[1,1,1],"block":[1,1,1],"registers":40,)"
            R"("occupancy_percent":24.5,"tensor_active_percent":50.0,)"
            R"("stalls":{"long_scoreboard":3.25,"wait":1.5}})");
  after.erase("profile");
  EXPECT_EQ(after, before) << "nothing else changes";
}

TEST(NcuImport, ComparesWithAllThatAttnlabSays) {
  const RecordJson profile = profile_of(ncu_launch("a"));
  std::map<std::string, std::pair<double, double>> compared;
  for (const RecordJson& line : profile.at("compared")) {
    compared[line.at("what").get<std::string>() + " " + line.at("source").get<std::string>()] = {
        line.at("ncu"), line.at("other")};
  }
  using Pair = std::pair<double, double>;
  EXPECT_EQ(compared, (std::map<std::string, Pair>{{"dram_read_bytes counters", {1005, 1005}},
                                                   {"dram_write_bytes counters", {500, 500}},
                                                   {"l2_read_bytes counters", {2880, 2880}},
                                                   {"l2_write_bytes counters", {1600, 1600}},
                                                   {"sm_read_bytes counters", {3200, 3200}},
                                                   {"dram_bytes compulsory", {1505, 1505}},
                                                   {"sm_read_bytes schedule", {3200, 3200}},
                                                   {"l2_write_bytes schedule", {1600, 1600}},
                                                   {"wgmma_flops counters", {2048, 2048}},
                                                   {"tensor_flops schedule", {2048, 2048}},
                                                   {"registers trace", {40, 40}},
                                                   {"registers compiler", {40, 40}}}));
  EXPECT_EQ(differing(profile), std::vector<std::string>());
}

TEST(NcuImport, MarksWhatDiffersByMoreThanTwoPercent) {
  using Words = std::vector<std::string>;
  const auto marked = [](const char* metric, const char* value) {
    Launch launch = ncu_launch("a");
    set_value(launch, metric, value);
    return differing(profile_of(launch));
  };
  EXPECT_EQ(marked("dram__bytes_read.sum", "1,025"), Words());
  EXPECT_EQ(marked("dram__bytes_read.sum", "985"), Words());
  EXPECT_EQ(marked("dram__bytes_read.sum", "1,026"), Words{"dram_read_bytes counters"});
  EXPECT_EQ(marked("dram__bytes_read.sum", "984"), Words{"dram_read_bytes counters"});
  EXPECT_EQ(marked("dram__bytes_write.sum", "600"),
            (Words{"dram_write_bytes counters", "dram_bytes compulsory"}));
  EXPECT_EQ(marked("sm__ops_path_tensor_op_hgmma_src_fp16.sum", "2,000"),
            (Words{"wgmma_flops counters", "tensor_flops schedule"}));
  EXPECT_EQ(marked("launch__registers_per_thread", "41"),
            (Words{"registers trace", "registers compiler"}));
  EXPECT_EQ(marked("sm__pipe_tensor_cycles_active.avg", "9"), Words()) << "a share, not a count";
}

TEST(NcuImport, ComparesNothingWithNothing) {
  RecordJson other = record_of_a();
  other["counters"] = nullptr;
  other["traffic"]["dram"] = nullptr;
  other["compile"] = nullptr;
  other["problem"]["dtype"] = "f32";
  Launch launch = ncu_launch("a");
  for (NcuColumn& column : launch) {  // those of TF32, which f32 alone does not use
    if (column.name == "sm__ops_path_tensor_op_hgmma_src_fp16.sum") {
      column = {"sm__ops_path_tensor_op_hgmma_src_tf32_dst_fp32.sum", "", "0"};
    }
    if (column.name == "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32.sum") {
      column = {"sm__ops_path_tensor_op_hmma_src_tf32_dst_fp32.sum", "", "0"};
    }
  }
  const RecordJson profile = profile_of(launch, other);
  for (const RecordJson& line : profile.at("compared")) {
    EXPECT_NE(line.at("source"), "compiler");
    EXPECT_NE(line.at("what"), "dram_read_bytes");
    EXPECT_NE(line.at("what"), "tensor_flops");
    EXPECT_FALSE(line.at("source") == "counters" && line.at("what") == "wgmma_flops");
  }
  other["problem"]["dtype"] = "f16";
  launch = ncu_launch("a");
  set_value(launch, "sm__ops_path_tensor_op_hgmma_src_fp16.sum", "0");
  EXPECT_EQ(differing(profile_of(launch, other)), std::vector<std::string>{"tensor_flops schedule"})
      << "f16 that takes no tensor core is not what the schedule says";
}

TEST(NcuImport, SumsTheKernelsOfALaunch) {
  const RecordJson both = record("AB", {executed("a", 2), executed("b")});
  const std::vector<Launch> launches = {ncu_launch("a"), ncu_launch("b"), ncu_launch("a")};
  const RecordJson profile = import(launches, {both}).at(0).at("profile");
  EXPECT_EQ(profile.at("dram").at("read_bytes"), 3015.0);
  EXPECT_EQ(profile.at("wgmma_flops"), 6144.0);
  EXPECT_EQ(profile.at("tensor_active_percent"), 50.0);
  EXPECT_EQ(profile.at("kernels").size(), 3U);
}

TEST(NcuImport, GivesEachRecordItsLaunches) {
  RecordJson skipped = record("unsupported", {});
  skipped["status"] = "unsupported";
  skipped["evidence"] = nullptr;
  RecordJson peer = record("peer", {executed("c")});
  peer["kernel"] = "torch:flash";
  Launch b = ncu_launch("b");
  set_value(b, "dram__bytes_read.sum", "7");
  const std::vector<RecordJson> filled =
      import({ncu_launch("a"), b}, {record_of_a(), skipped, peer, record("B", {executed("b")})});
  ASSERT_EQ(filled.size(), 4U);
  EXPECT_EQ(filled[0].at("profile").at("dram").at("read_bytes"), 1005.0);
  EXPECT_EQ(filled[1], skipped);
  EXPECT_EQ(filled[2], peer);
  EXPECT_EQ(filled[3].at("profile").at("dram").at("read_bytes"), 7.0);
}

TEST(NcuImport, RefusesLaunchesOfOtherPoints) {
  EXPECT_EQ(error_of({ncu_launch("b")}, {record_of_a()}),
            "r.csv: from its launch 1 on it has 1 x b [1, 1, 1] [1, 1, 1], but one launch of A is "
            "1 x a [1, 1, 1] [1, 1, 1]: profile the points of the records, all of them and in "
            "their order");
  Launch wider = ncu_launch("a");
  set_value(wider, "Grid Size", "(2, 1, 1)");
  EXPECT_NE(error_of({wider}, {record_of_a()}), "");
  const RecordJson b = record("B", {executed("b")});
  EXPECT_NE(error_of({ncu_launch("b"), ncu_launch("a")}, {record_of_a(), b}), "") << "order";
  EXPECT_NE(error_of({ncu_launch("a")}, {record_of_a(), b}).find("it has nothing, but one launch"),
            std::string::npos)
      << "half a report";
  EXPECT_EQ(error_of({ncu_launch("a"), ncu_launch("a")}, {record_of_a()}),
            "r.csv: its launches beyond the first 1 are of no record: profile the points of the "
            "records alone, each launched once");
  Launch other_chip = ncu_launch("a");
  set_value(other_chip, "CC", "8.0");
  EXPECT_EQ(error_of({other_chip}, {record_of_a()}),
            "r.csv: is of a GPU of compute capability 8.0, and the record of A of H200: profile "
            "the points on the GPU that they ran on");
}

// A persistent kernel has the same name and the same grid at every length.
TEST(NcuImport, RangesTellPointsOfEqualLaunchesApart) {
  const auto launch_of = [](const std::string& problem) {
    return in_ranges(ncu_launch("a"), {problem, "profile", "v3 block_m=64"});
  };
  const RecordJson first =
      record("fwd/window:3:-1/v3/cuda/block_m=64/normal/seed7", {executed("a")});
  const RecordJson second = record("fwd/none/v3/cuda/block_m=64/normal/seed7", {executed("a")});
  std::vector<Launch> launches = {launch_of("fwd/window:3:-1"), launch_of("fwd/none")};
  set_value(launches[1], "dram__bytes_read.sum", "2,010");
  const std::vector<RecordJson> both = import(launches, {first, second});
  EXPECT_EQ(both[0].at("profile").at("dram").at("read_bytes"), 1005.0);
  EXPECT_EQ(both[1].at("profile").at("dram").at("read_bytes"), 2010.0);
  EXPECT_EQ(error_of(launches, {second, first}),
            "r.csv: a launch of a is of fwd/window:3:-1/v3/cuda/block_m=64/, and the record that "
            "comes next of fwd/none/v3/cuda/block_m=64/normal/seed7: profile the points of the "
            "records, all of them and in their order");
  const RecordJson other_seed = record("fwd/none/v3/cuda/block_m=64/normal/seed8", {executed("a")});
  EXPECT_NE(error_of({launches[1], launches[1]}, {second, other_seed}).find("cannot be told"),
            std::string::npos);
}

TEST(NcuImport, RefusesRecordsThatDoNotTell) {
  EXPECT_EQ(
      error_of({ncu_launch("a"), ncu_launch("a")}, {record_of_a(), record("A2", {executed("a")})}),
      "r.csv: launches of A2 cannot be told from those of A, which are the same kernels in "
      "the same shapes: profile and import one point at a time");
  RecordJson silent = record_of_a();
  silent["evidence"]["executed"] = nullptr;
  EXPECT_NE(error_of({ncu_launch("a")}, {silent}).find("does not say which kernels"),
            std::string::npos);
  RecordJson on_cpu = record_of_a();
  on_cpu["backend"] = "cpu";
  EXPECT_EQ(error_of({ncu_launch("a")}, {on_cpu}),
            "r.csv: no record is of kernels that ran on a GPU and are right");
}

TEST(NcuImport, PrintsWhatItFound) {
  Launch launch = ncu_launch("a");
  set_value(launch, "dram__bytes_read.sum", "2,010");
  const std::string text = render_ncu_import(import({launch}, {record_of_a()}));
  for (const char* part :
       {"A\n", "long_scoreboard 3.25, wait 1.50", "dram_read_bytes", "2.000", "differs"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(render_ncu_import({record_of_a()}), "");
}

}  // namespace
}  // namespace attnlab
