#include "harness/plan/sweep.h"
#include "harness/plan/sweep_file.h"
#include "kernels/api/registry.h"
#include "tests/fuzz/fuzz.h"

namespace {

// These are axes as kernels declare them: numbers, yes or no, below 0.
constexpr attnlab::ConfigAxis kAxes[] = {
    {"sram", "elements on chip", 49152, 64, 1 << 20},
    {"stages", "tiles in flight", 2, 0, 4},
    {"deterministic", "1: in a fixed order", 0, 0, 1},
    {"ping_pong", "1: in order", -1, -1, 1},
};

attnlab::Registry make_registry() {
  static constexpr attnlab::Implementation kKernel = {.api_version = attnlab::kApiVersion,
                                                      .name = "v2",
                                                      .backend = attnlab::Backend::cpu,
                                                      .summary = "is never run",
                                                      .axes = kAxes,
                                                      .num_axes = 4};
  attnlab::Registry registry;
  registry.add(kKernel);
  return registry;
}

}  // namespace

void attnlab::fuzz::read_input(const std::filesystem::path& file) {
  static const Registry kRegistry = make_registry();
  read_sweep(file, kRegistry);
}
