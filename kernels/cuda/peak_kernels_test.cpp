// Tests the kernels of the ceilings, as far as no GPU is needed: they compile without spills, with
// as many blocks at once as their grid assumes.
#include "kernels/cuda/peak_kernels.h"

#include <gtest/gtest.h>

#include "kernels/cuda/test_support.h"

namespace attnlab::cuda {
namespace {

class PeakUnit : public CompilerTest {};

TEST_F(PeakUnit, CompilesCleanly) {
  for (const char* arch : {"sm_75", "sm_80", "sm_90a"}) {
    const Compilation made = compile(peaks_unit(), arch).compilation;
    EXPECT_EQ(made.error, "") << arch;
    EXPECT_TRUE(made.advisories.empty()) << arch << made.advisories.front();
    EXPECT_EQ(made.entries.size(), peaks_unit().entries.size());
    for (const CompiledEntry& entry : made.entries) {
      SCOPED_TRACE(entry.entry.name + " " + arch);
      EXPECT_EQ(entry.stack_bytes, 0);
      EXPECT_GE(entry.blocks_per_multiprocessor, 2);
      EXPECT_EQ(12 % entry.blocks_per_multiprocessor, 0);
    }
  }
}

}  // namespace
}  // namespace attnlab::cuda
