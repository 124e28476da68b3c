#include <cmath>

#include "harness/base/text_file.h"
#include "harness/record/ncu_report.h"
#include "tests/fuzz/fuzz.h"

void attnlab::fuzz::read_input(const std::filesystem::path& file) {
  for (const NcuLaunch& launch : read_ncu_report(read_text(file), Dtype::f16, file.string())) {
    const HardwareCounts& counts = launch.counts;
    require(counts.dram_read_bytes && std::isfinite(*counts.dram_read_bytes),
            "a launch has no bytes");
    require(launch.occupancy_percent >= 0.0 && !launch.stalls.empty(), "a launch has no stalls");
    require(launch.registers >= 0 && launch.registers <= 255, "registers that cannot be");
    require(launch.grid[0] > 0 && launch.block[2] > 0, "a launch without threads");
  }
}
