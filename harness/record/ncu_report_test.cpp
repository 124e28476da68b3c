#include "harness/record/ncu_report.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/testing/ncu_page.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using Launch = std::vector<NcuColumn>;

constexpr const char* kReads = "dram__bytes_read.sum";

std::vector<NcuLaunch> read(const std::string& page) {
  return read_ncu_report(page, Dtype::f16, "r.csv");
}

std::string error_of(const std::string& page) {
  return usage_error([&] { read(page); });
}

// Returns what is said of a page where a column of its second launch has this value.
std::string error_of_value(const std::string& column, const std::string& value) {
  Launch spoiled = ncu_launch("b");
  set_value(spoiled, column, value);
  return error_of(ncu_page({ncu_launch("a"), spoiled}));
}

std::string error_of_unit(const std::string& name, const std::string& unit) {
  Launch launch = ncu_launch("a");
  for (NcuColumn& column : launch) {
    if (column.name == name) column.unit = unit;
  }
  return error_of(ncu_page({launch}));
}

Launch without(const std::string& name) {
  Launch launch = ncu_launch("a");
  std::erase_if(launch, [&](const NcuColumn& column) { return column.name == name; });
  return launch;
}

TEST(NcuReport, HasWhatWasSaidOfEachLaunch) {
  Launch second = ncu_launch("void f<int>(int*)");
  set_value(second, "Grid Size", "(132, 2, 1)");
  set_value(second, "Block Size", "(128,1,1)");
  set_value(second, kReads, "1,234,567");
  const std::vector<NcuLaunch> launches = read(ncu_page({ncu_launch("a"), second}));
  ASSERT_EQ(launches.size(), 2U);
  const NcuLaunch& first = launches[0];
  EXPECT_EQ(first.kernel, "a");
  EXPECT_EQ(first.compute_capability, 90);
  EXPECT_EQ(first.registers, 40);
  EXPECT_EQ(first.occupancy_percent, 24.5);
  EXPECT_EQ(first.stalls,
            (std::map<std::string, double>{{"long_scoreboard", 3.25}, {"wait", 1.5}}));
  EXPECT_EQ(first.counts.dram_read_bytes, 1005.0);
  EXPECT_EQ(first.counts.dram_write_bytes, 500.0);
  EXPECT_EQ(first.counts.sm_read_bytes, 3200.0) << "sectors of 32 bytes";
  EXPECT_EQ(first.counts.l2_read_bytes, 2880.0);
  EXPECT_EQ(first.counts.l2_write_bytes, 1600.0);
  EXPECT_EQ(first.counts.tensor_active_cycles, 500.25);
  EXPECT_EQ(first.counts.active_cycles, 1000.5);
  EXPECT_EQ(first.counts.wgmma_flops, 2048.0);
  EXPECT_EQ(first.counts.mma_sync_flops, 0.0);
  EXPECT_EQ(first.counts.multiprocessor_clock_hz, std::nullopt) << "no rates under ncu";
  EXPECT_EQ(launches[1].kernel, "void f<int>(int*)");
  EXPECT_EQ(launches[1].grid, (std::array<std::uint32_t, 3>{132, 2, 1}));
  EXPECT_EQ(launches[1].block, (std::array<std::uint32_t, 3>{128, 1, 1}));
  EXPECT_EQ(launches[1].counts.dram_read_bytes, 1234567.0);
}

TEST(NcuReport, NamesTheRangesOfALaunch) {
  const std::vector<std::string> names = {"fwd/window:3:-1", "profile", "v3 block_m=64"};
  const Launch launch = in_ranges(ncu_launch("a"), names);
  const std::vector<NcuLaunch> launches = read(ncu_page({launch, in_ranges(ncu_launch("b"), {})}));
  EXPECT_EQ(launches.at(0).ranges, names);
  EXPECT_EQ(launches.at(1).ranges, std::vector<std::string>());
  EXPECT_EQ(read(ncu_page({ncu_launch("a")})).at(0).ranges, std::vector<std::string>());
  Launch half = launch;
  half.back().value = "17  \"attnlab:profile:none\"";
  EXPECT_NE(error_of(ncu_page({half})).find("does not say which ranges were open"),
            std::string::npos);
}

TEST(NcuReport, LeavesOutWhatOthersPrinted) {
  const std::string page = ncu_page({ncu_launch("a")});
  EXPECT_EQ(read("==PROF== Connected to process 17\nok: fwd\n" + page).size(), 1U);
  EXPECT_EQ(read(page + "==PROF== Disconnected from process 17\n==PROF== Report: r\n").size(), 1U);
}

TEST(NcuReport, AsksForAllThatItReads) {
  std::vector<std::string> asked = ncu_metrics(Dtype::f16, true);
  for (const NcuColumn& column : ncu_launch("a")) {
    const bool is_of_a_launch = column.name.find("__") == std::string::npos;
    const bool is_stall = column.name.find("issue_stalled") != std::string::npos;  // by its section
    if (is_of_a_launch || is_stall) continue;
    EXPECT_EQ(std::erase(asked, column.name), 1U) << column.name;
  }
  EXPECT_TRUE(asked.empty()) << "more is asked for than is read: " << asked.front();
  for (const std::string& name : ncu_metrics(Dtype::bf16, false)) {
    EXPECT_EQ(name.find("hgmma"), std::string::npos) << "no chip but Hopper has it";
  }
}

TEST(NcuReport, FlopsMayBeMissingAndNothingElse) {
  constexpr const char* kWgmma = "sm__ops_path_tensor_op_hgmma_src_fp16.sum";
  EXPECT_EQ(read(ncu_page({without(kWgmma)})).at(0).counts.wgmma_flops, std::nullopt);
  Launch not_counted = ncu_launch("a");
  set_value(not_counted, kWgmma, "n/a");
  EXPECT_EQ(read(ncu_page({not_counted})).at(0).counts.wgmma_flops, std::nullopt);
  for (const NcuColumn& column : ncu_launch("a")) {
    const bool is_needed = column.name.find("__") != std::string::npos || column.name == "CC" ||
                           column.name == "ID" || column.name.ends_with("Size");
    const bool is_one_of_several = column.name.find("issue_stalled") != std::string::npos ||
                                   column.name.find("__ops_path_") != std::string::npos;
    if (!is_needed || is_one_of_several) continue;
    EXPECT_TRUE(error_of(ncu_page({without(column.name)})).starts_with("r.csv: ")) << column.name;
  }
  EXPECT_EQ(error_of(ncu_page({without("Kernel Name")})),
            "r.csv: has no column 'Kernel Name': attnlab profile asks ncu for it, and exports by "
            "--page raw --csv --print-units base");
}

TEST(NcuReport, WantsOneReasonToStallAtTheLeast) {
  Launch launch = without("smsp__average_warps_issue_stalled_wait_per_issue_active.ratio");
  EXPECT_EQ(read(ncu_page({launch})).at(0).stalls,
            (std::map<std::string, double>{{"long_scoreboard", 3.25}}));
  launch.push_back({"smsp__average_warps_issue_stalled_a b_per_issue_active.ratio", "inst", "1"});
  EXPECT_EQ(read(ncu_page({launch})).at(0).stalls.size(), 1U) << "a name of no reason";
  set_value(launch, "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
            "n/a");
  EXPECT_EQ(error_of(ncu_page({launch})),
            "r.csv: launch 1, smsp__average_warps_issue_stalled_*_per_issue_active.ratio: are not "
            "there or n/a: attnlab profile asks ncu for its section WarpStateStats");
}

TEST(NcuReport, RefusesWhatIsNoNumber) {
  EXPECT_EQ(error_of_value(kReads, "nan"),
            "r.csv: launch 2, dram__bytes_read.sum: 'nan' is not a number that can be");
  for (const char* value : {"inf", "-1", "", "1.5x", "12,34", ",123", "1,2345", "1.2,345", "0x10",
                            "1e999", "1.005.000"}) {
    EXPECT_NE(error_of_value(kReads, value), "") << value;
  }
  EXPECT_EQ(error_of_value(kReads, "12,345,678.5"), "");
  EXPECT_EQ(error_of_value(kReads, "1e6"), "");
  EXPECT_EQ(error_of_value(kReads, "n/a"),
            "r.csv: launch 2, dram__bytes_read.sum: is not there or n/a: attnlab profile asks ncu "
            "for it, and exports by --page raw --csv --print-units base");
  EXPECT_NE(error_of_value("launch__registers_per_thread", "40.5"), "");
  EXPECT_NE(error_of_value("launch__registers_per_thread", "256"), "");
  EXPECT_NE(error_of_value("launch__registers_per_thread", "n/a"), "");
  EXPECT_NE(error_of_value("CC", "n/a"), "");
  for (const char* extent :
       {"", "(1, 1)", "1, 1, 1", "(0, 1, 1)", "(1, 1, 1) ", "(1, -1, 1)", "(1, 1, 5000000000)"}) {
    EXPECT_EQ(error_of_value("Grid Size", extent), std::string("r.csv: launch 2, Grid Size: '") +
                                                       extent + "' is not of the form (1, 1, 1)");
  }
}

TEST(NcuReport, RefusesOtherUnits) {
  EXPECT_EQ(error_of_unit(kReads, "Mbyte"),
            "r.csv: dram__bytes_read.sum is in 'Mbyte', not in byte: export it with --print-units "
            "base");
  EXPECT_NE(error_of_unit(kReads, ""), "");
  EXPECT_NE(error_of_unit("lts__t_sectors_srcunit_tex_op_read.sum", "byte"), "");
  EXPECT_NE(error_of_unit("sm__warps_active.avg.pct_of_peak_sustained_active", "warp"), "");
  EXPECT_NE(error_of_unit("sm__cycles_active.avg", "Kcycle"), "");
  EXPECT_EQ(error_of_unit("sm__cycles_active.avg", "cycles"), "");
}

TEST(NcuReport, RefusesOtherFilesAndHalfOnes) {
  EXPECT_TRUE(error_of("").starts_with("r.csv: has no line that begins with \"ID\""));
  EXPECT_TRUE(error_of("{\"schema\": 1}\n").starts_with("r.csv: has no line"));
  const std::string page = ncu_page({ncu_launch("a"), ncu_launch("b")});
  const std::size_t behind_units = page.find("\"0\"");
  EXPECT_TRUE(error_of(page.substr(0, behind_units)).starts_with("r.csv: has no launches"));
  for (std::size_t size = behind_units + 1; size < page.size(); ++size) {
    const bool is_whole_row = page[size - 1] == '\n';
    EXPECT_EQ(error_of(page.substr(0, size)).empty(), is_whole_row) << size;
  }
  Launch twice = ncu_launch("a");
  twice.push_back({kReads, "byte", "1"});
  EXPECT_EQ(error_of(ncu_page({twice})), "r.csv: has two columns 'dram__bytes_read.sum'");
  std::string no_units = ncu_page({ncu_launch("a"), ncu_launch("b")});
  no_units.erase(no_units.find('\n') + 1, no_units.find("\"0\"") - no_units.find('\n') - 1);
  EXPECT_EQ(error_of(no_units), "r.csv: its second row has no units");
}

}  // namespace
}  // namespace attnlab
