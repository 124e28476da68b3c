// Makes raw pages of Nsight Compute as CSV, in the form of its --page raw --csv --print-units base;
// the figures are made up.
#pragma once

#include <string>
#include <vector>

namespace attnlab {

struct NcuColumn {
  std::string name, unit, value;
};

// Returns the columns of a launch of a kernel in one block of one thread, on a Hopper.
inline std::vector<NcuColumn> ncu_launch(const std::string& kernel) {
  return {
      {"ID", "", "0"},
      {"Process ID", "", "17"},
      {"Process Name", "", "attnlab"},
      {"Host Name", "", "127.0.0.1"},
      {"Kernel Name", "", kernel},
      {"Context", "", "1"},
      {"Stream", "", "13"},
      {"Block Size", "", "(1, 1, 1)"},
      {"Grid Size", "", "(1, 1, 1)"},
      {"Device", "", "0"},
      {"CC", "", "9.0"},
      {"dram__bytes_read.sum", "byte", "1,005"},
      {"dram__bytes_write.sum", "byte", "500"},
      {"l1tex__m_xbar2l1tex_read_sectors.sum", "sector", "100"},
      {"launch__registers_per_thread", "register/thread", "40"},
      {"lts__t_sectors_srcunit_tex_op_read.sum", "sector", "90"},
      {"lts__t_sectors_srcunit_tex_op_write.sum", "sector", "50"},
      {"sm__cycles_active.avg", "cycle", "1,000.5"},
      {"sm__ops_path_tensor_op_hgmma_src_fp16.sum", "", "2,048"},
      {"sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32.sum", "", "0"},
      {"sm__pipe_tensor_cycles_active.avg", "cycle", "500.25"},
      {"sm__warps_active.avg.pct_of_peak_sustained_active", "%", "24.5"},
      {"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", "inst", "3.25"},
      {"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", "inst", "1.5"},
  };
}

// Adds what ncu's --nvtx says of attnlab's ranges that were open, outermost first.
inline std::vector<NcuColumn> in_ranges(std::vector<NcuColumn> launch,
                                        const std::vector<std::string>& names) {
  std::string cell = "17 ";
  for (const std::string& name : names) {
    cell += " \"attnlab:";
    cell += name;
    cell += ":none:none:none:none:ASCII:";
    cell += name;
    cell += "\" ";
  }
  launch.push_back(
      {"thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg", "", cell});
  return launch;
}

inline void set_value(std::vector<NcuColumn>& launch, const std::string& name,
                      const std::string& value) {
  for (NcuColumn& column : launch) {
    if (column.name == name) column.value = value;
  }
}

// Returns the page of launches that have the same columns.
inline std::string ncu_page(const std::vector<std::vector<NcuColumn>>& launches) {
  std::string text;
  const auto add_row = [&](const std::vector<NcuColumn>& columns, std::string NcuColumn::*part) {
    std::string row;
    for (const NcuColumn& column : columns) {
      row += row.empty() ? "\"" : ",\"";
      for (const char c : column.*part) row.append(c == '"' ? 2 : 1, c);
      row += '"';
    }
    text += row;
    text += '\n';
  };
  add_row(launches.front(), &NcuColumn::name);
  add_row(launches.front(), &NcuColumn::unit);
  for (const auto& launch : launches) add_row(launch, &NcuColumn::value);
  return text;
}

}  // namespace attnlab
