#include "harness/report/sass_loops.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace attnlab {
namespace {

SassKernel kernel_of(const std::string& instructions) {
  const std::vector<SassKernel> kernels =
      parse_sass("\t.section\t.text.kernel,\"ax\",@progbits\n" + instructions);
  EXPECT_EQ(kernels.size(), 1U);
  return kernels.empty() ? SassKernel{} : kernels.front();
}

// Behind EXIT a wait is tried again; from there a branch goes back into the loop, which is no loop.
TEST(SassLoops, CountWhatStandsBetweenTheProductsOfTwoSteps) {
  const SassKernel kernel = kernel_of(R"(
        /*0000*/                   S2R R0, SR_TID.X ;
.L_x_1:
        /*0010*/              @!P0 BRA `(.L_x_9) ;
.L_x_2:
        /*0020*/                   IADD3 R1, R1, 1, RZ ;
        /*0030*/                   HGMMA.64x128x16.F32 R88, gdesc[UR8], RZ, !UPT ;
        /*0040*/               @P1 BRA `(.L_x_3) ;
        /*0050*/                   FFMA R2, R3, R4, R5 ;
.L_x_3:
        /*0060*/                   HGMMA.64x128x16.F32 R24, R180, gdesc[UR8], R24, gsb0 ;
        /*0070*/                   LDS R6, [R7] ;
        /*0080*/               @P2 BRA `(.L_x_1) ;
        /*0090*/                   EXIT ;
.L_x_9:
        /*00a0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R8 ;
        /*00b0*/                   BRA `(.L_x_2) ;
)");
  const std::vector<SassLoop> loops = product_loops(kernel);
  ASSERT_EQ(loops.size(), 1U);
  EXPECT_EQ(kernel.instructions[loops[0].begin].address, "0010");
  EXPECT_EQ(kernel.instructions[loops[0].end].address, "0090");
  EXPECT_EQ(loops[0].all, 8U);
  EXPECT_EQ(loops[0].tensor_instructions, 2U);
  const SassCounts& between = loops[0].between_steps;
  EXPECT_EQ(between.all, 4U);
  EXPECT_EQ(between[SassKind::shared], 1U);
  EXPECT_EQ(between[SassKind::branch], 2U);
  EXPECT_EQ(between[SassKind::integer], 1U);
  EXPECT_EQ(between[SassKind::fp32], 0U);  // it is within the step
}

// The inner loop has a `continue`, and one condition stands behind BRA.
TEST(SassLoops, AreTheInnermostWithProducts) {
  const SassKernel kernel = kernel_of(R"(
.L_x_1:
        /*0000*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
.L_x_2:
        /*0010*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0020*/               @P0 BRA `(.L_x_2) ;
        /*0030*/                   BRA.DIV UR4, `(.L_x_5) ;
.L_x_3:
        /*0040*/                   FADD R0, R0, R1 ;
        /*0050*/               @P1 BRA `(.L_x_3) ;
.L_x_4:
        /*0060*/                   MOV R2, R3 ;
        /*0070*/               @P2 BRA `(.L_x_2) ;
        /*0080*/               @P3 BRA `(.L_x_1) ;
.L_x_5:
        /*0090*/                   EXIT ;
)");
  const std::vector<SassLoop> loops = product_loops(kernel);
  ASSERT_EQ(loops.size(), 1U);
  EXPECT_EQ(loops[0].begin, 1U);
  EXPECT_EQ(loops[0].end, 8U);
  EXPECT_EQ(loops[0].tensor_instructions, 1U);
  EXPECT_EQ(loops[0].all, 7U);
  EXPECT_EQ(loops[0].between_steps.all, 6U);
}

TEST(SassLoops, WithoutProductsAreLeftOut) {
  EXPECT_TRUE(product_loops(SassKernel{}).empty());
  EXPECT_TRUE(product_loops(kernel_of(R"(
        /*0000*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
.L_x_1:
        /*0010*/                   FADD R0, R0, R1 ;
        /*0020*/               @P0 BRA `(.L_x_1) ;
        /*0030*/                   EXIT ;
.L_x_2:
        /*0040*/                   BRA `(.L_x_2) ;
)"))
                  .empty());
}

}  // namespace
}  // namespace attnlab
