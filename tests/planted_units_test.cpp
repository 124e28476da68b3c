// Tests by the real compiler that the slowdowns that gate --self-test plants into the text of v2's
// forward compile: a unit that spills is refused, and then no GPU can run the self-test.
#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/session/planted_texts.h"
#include "kernels/api/compiler.h"
#include "kernels/api/registry.h"
#include "tests/paths.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

// Returns what the compiler makes of the self-test's units, of another tree's texts if given.
std::vector<Compilation> compile_trial(const std::string& cache, const std::string& sources) {
  set_compiler(
      {.cache_folder = cache, .source_folder = sources, .worker_program = in_build("attnlab")});
  const Problem problem = {.dtype = Dtype::f16,
                           .batch = 2,
                           .num_heads_q = 16,
                           .num_heads_kv = 16,
                           .seqlen_q = 4096,
                           .seqlen_k = 4096,
                           .head_dim = 128};
  const Implementation& v2 = *builtin_registry().find("v2", Backend::cuda);
  std::vector<CompileJob> jobs;
  for (const char* arch : {"sm_80", "sm_90a"}) {
    for (const KernelUnit& unit : v2.units(problem, default_config(v2), device_of_arch(arch))) {
      jobs.push_back({unit, arch});
    }
  }
  return compile_ahead(jobs, 2, [](const Compilation&) {});
}

TEST(PlantedUnits, CompileAndDifferFromTheKernel) {
  if (kernel_texts().empty()) GTEST_SKIP() << "a build without CUDA has no texts";
  const TestFolder folder;
  const std::string cache = (folder.path() / "cache").string();
  std::vector<Compilation> kernels;
  try {
    kernels = compile_trial(cache, "");
  } catch (const std::runtime_error& error) {
    GTEST_SKIP() << error.what();
  }
  ASSERT_FALSE(kernels.empty());
  const auto texts = kernel_texts();
  for (const TextPlant& plant : text_plants()) {
    SCOPED_TRACE(plant.what);
    const TestFolder planted;
    write_planted(plant, texts, planted.path());
    const std::vector<Compilation> made = compile_trial(cache, planted.path().string());
    ASSERT_EQ(made.size(), kernels.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      EXPECT_EQ(made[i].error, "") << made[i].unit << " for " << made[i].arch;
      EXPECT_NE(made[i].text_sha256, kernels[i].text_sha256) << made[i].unit;
    }
  }
  set_compiler({});
}

}  // namespace
}  // namespace attnlab
