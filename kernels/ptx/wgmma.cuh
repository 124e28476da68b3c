// sm_90a. PTX ISA: wgmma. A warpgroup (four warps, the first of a number that four divides)
// multiplies 64x16 by 16xN, or of e4m3 64x32 by 32xN, and adds to 64xN in fp32, while its threads
// go on: until wgmma_wait_group() says so they touch neither the sums nor the registers of A. N is
// 8 * kColumns.
//
// Of its warp's 16 rows a thread holds what it holds of mma.m16n8k16 (mma.cuh): d[c] are its four
// sums of columns 8c and on, a its pairs of A. Factors in shared memory are named by
// descriptors, as they are read along the sum (K-major: rows of the left one are rows of the
// product, rows of the right one its columns) or, kTransposedA and kTransposedB, across it.
//
// Of e4m3 both are K-major, and a thread's four registers of A hold rows g, g + 8, g and g + 8,
// columns 4t to 4t + 3 and in the last two 4t + 16 to 4t + 19. Sums of it keep 13 bits behind their
// leading one, within an instruction and from one to the next, and lose what is below.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

// Must come before the first product after other instructions have written its registers.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Ends a group of products.
__device__ inline void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most kPending of the last groups are still in flight.
template <i32 kPending>
__device__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving these registers' uses across this place and from keeping copies:
// it stands before the first product and behind the wait for the last one.
template <i32 kColumns>
__device__ void wgmma_fence_operand(float (&d)[kColumns][4]) {
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
    asm volatile("" : "+f"(d[c][0]), "+f"(d[c][1]), "+f"(d[c][2]), "+f"(d[c][3])::"memory");
  }
}
template <i32 kSteps>
__device__ void wgmma_fence_operand(u32 (&a)[kSteps][4]) {
#pragma unroll
  for (i32 k = 0; k < kSteps; ++k) {
    asm volatile("" : "+r"(a[k][0]), "+r"(a[k][1]), "+r"(a[k][2]), "+r"(a[k][3])::"memory");
  }
}

// These name 16 columns' sums in the text of an instruction, and say what the names stand for.
#define ATTNLAB_NAMES_0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define ATTNLAB_NAMES_1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define ATTNLAB_NAMES_2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define ATTNLAB_NAMES_3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define ATTNLAB_NAMES_4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define ATTNLAB_NAMES_5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define ATTNLAB_NAMES_6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define ATTNLAB_NAMES_7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define ATTNLAB_NAMES_8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define ATTNLAB_NAMES_9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define ATTNLAB_NAMES_10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define ATTNLAB_NAMES_11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define ATTNLAB_NAMES_12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define ATTNLAB_NAMES_13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define ATTNLAB_NAMES_14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define ATTNLAB_NAMES_15 "%120, %121, %122, %123, %124, %125, %126, %127"
#define ATTNLAB_SUMS(c)                                                               \
  "+f"(d[2 * (c)][0]), "+f"(d[2 * (c)][1]), "+f"(d[2 * (c)][2]), "+f"(d[2 * (c)][3]), \
      "+f"(d[2 * (c) + 1][0]), "+f"(d[2 * (c) + 1][1]), "+f"(d[2 * (c) + 1][2]),      \
      "+f"(d[2 * (c) + 1][3])

#define ATTNLAB_NAMES_OF_32 ATTNLAB_NAMES_0 ", " ATTNLAB_NAMES_1
#define ATTNLAB_SUMS_OF_32 ATTNLAB_SUMS(0), ATTNLAB_SUMS(1)
#define ATTNLAB_NAMES_OF_40 ATTNLAB_NAMES_OF_32 ", %16, %17, %18, %19"
#define ATTNLAB_SUMS_OF_40 \
  ATTNLAB_SUMS_OF_32, "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3])
#define ATTNLAB_NAMES_OF_64 ATTNLAB_NAMES_OF_32 ", " ATTNLAB_NAMES_2 ", " ATTNLAB_NAMES_3
#define ATTNLAB_SUMS_OF_64 ATTNLAB_SUMS_OF_32, ATTNLAB_SUMS(2), ATTNLAB_SUMS(3)
#define ATTNLAB_NAMES_OF_80 ATTNLAB_NAMES_OF_64 ", " ATTNLAB_NAMES_4
#define ATTNLAB_SUMS_OF_80 ATTNLAB_SUMS_OF_64, ATTNLAB_SUMS(4)
#define ATTNLAB_NAMES_OF_96 ATTNLAB_NAMES_OF_80 ", " ATTNLAB_NAMES_5
#define ATTNLAB_SUMS_OF_96 ATTNLAB_SUMS_OF_80, ATTNLAB_SUMS(5)
#define ATTNLAB_NAMES_OF_112 ATTNLAB_NAMES_OF_96 ", " ATTNLAB_NAMES_6
#define ATTNLAB_SUMS_OF_112 ATTNLAB_SUMS_OF_96, ATTNLAB_SUMS(6)
#define ATTNLAB_NAMES_OF_128 ATTNLAB_NAMES_OF_112 ", " ATTNLAB_NAMES_7
#define ATTNLAB_SUMS_OF_128 ATTNLAB_SUMS_OF_112, ATTNLAB_SUMS(7)
#define ATTNLAB_NAMES_OF_144 ATTNLAB_NAMES_OF_128 ", " ATTNLAB_NAMES_8
#define ATTNLAB_SUMS_OF_144 ATTNLAB_SUMS_OF_128, ATTNLAB_SUMS(8)
#define ATTNLAB_NAMES_OF_160 ATTNLAB_NAMES_OF_144 ", " ATTNLAB_NAMES_9
#define ATTNLAB_SUMS_OF_160 ATTNLAB_SUMS_OF_144, ATTNLAB_SUMS(9)
#define ATTNLAB_NAMES_OF_176 ATTNLAB_NAMES_OF_160 ", " ATTNLAB_NAMES_10
#define ATTNLAB_SUMS_OF_176 ATTNLAB_SUMS_OF_160, ATTNLAB_SUMS(10)
#define ATTNLAB_NAMES_OF_192 ATTNLAB_NAMES_OF_176 ", " ATTNLAB_NAMES_11
#define ATTNLAB_SUMS_OF_192 ATTNLAB_SUMS_OF_176, ATTNLAB_SUMS(11)
#define ATTNLAB_NAMES_OF_256                                                             \
  ATTNLAB_NAMES_OF_192 ", " ATTNLAB_NAMES_12 ", " ATTNLAB_NAMES_13 ", " ATTNLAB_NAMES_14 \
                       ", " ATTNLAB_NAMES_15
#define ATTNLAB_SUMS_OF_256 \
  ATTNLAB_SUMS_OF_192, ATTNLAB_SUMS(12), ATTNLAB_SUMS(13), ATTNLAB_SUMS(14), ATTNLAB_SUMS(15)

// Reads both factors from shared memory; adds to the sums, or sets them where `adds` is false. a,
// b, ... are the numbers of the operands behind the sums.
#define ATTNLAB_WGMMA_SS(type, n, a0, b0, adds0, transposed_a0, transposed_b0)                   \
  template <bool kTransposedA, bool kTransposedB>                                                \
  __device__ void wgmma_m64k16_f32_##type(float(&d)[n / 8][4], u64 a, u64 b, bool adds) {        \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #adds0                               \
                 ", 0;\n"                                                                        \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #type "." #type               \
                 " {" ATTNLAB_NAMES_OF_##n "}, %" #a0 ", %" #b0 ", adds, 1, 1, %" #transposed_a0 \
                                           ", %" #transposed_b0 ";\n}"                           \
                 : ATTNLAB_SUMS_OF_##n                                                           \
                 : "l"(a), "l"(b), "r"(static_cast<i32>(adds)), "n"(kTransposedA ? 1 : 0),       \
                   "n"(kTransposedB ? 1 : 0));                                                   \
  }

// Reads A from registers.
#define ATTNLAB_WGMMA_RS(type, n, a0, a1, a2, a3, b0, adds0, transposed0)                       \
  template <bool kTransposedB>                                                                  \
  __device__ void wgmma_m64k16_f32_##type(float(&d)[n / 8][4], const u32(&a)[4], u64 b,         \
                                          bool adds) {                                          \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #adds0                              \
                 ", 0;\n"                                                                       \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." #type "." #type              \
                 " {" ATTNLAB_NAMES_OF_##n "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b0 \
                                           ", adds, 1, 1, %" #transposed0 ";\n}"                \
                 : ATTNLAB_SUMS_OF_##n                                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                          \
                   "r"(static_cast<i32>(adds)), "n"(kTransposedB ? 1 : 0));                     \
  }

// Multiplies e4m3, with both factors in shared memory.
#define ATTNLAB_WGMMA_SS_E4M3(n, a0, b0, adds0)                                                \
  __device__ inline void wgmma_m64k32_f32_e4m3(float(&d)[n / 8][4], u64 a, u64 b, bool adds) { \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #adds0                             \
                 ", 0;\n"                                                                      \
                 "wgmma.mma_async.sync.aligned.m64n" #n                                        \
                 "k32.f32.e4m3.e4m3"                                                           \
                 " {" ATTNLAB_NAMES_OF_##n "}, %" #a0 ", %" #b0 ", adds, 1, 1;\n}"             \
                 : ATTNLAB_SUMS_OF_##n                                                         \
                 : "l"(a), "l"(b), "r"(static_cast<i32>(adds)));                               \
  }
#define ATTNLAB_WGMMA_RS_E4M3(n, a0, a1, a2, a3, b0, adds0)                                     \
  __device__ inline void wgmma_m64k32_f32_e4m3(float(&d)[n / 8][4], const u32(&a)[4], u64 b,    \
                                               bool adds) {                                     \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #adds0                              \
                 ", 0;\n"                                                                       \
                 "wgmma.mma_async.sync.aligned.m64n" #n                                         \
                 "k32.f32.e4m3.e4m3"                                                            \
                 " {" ATTNLAB_NAMES_OF_##n "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b0 \
                                           ", adds, 1, 1;\n}"                                   \
                 : ATTNLAB_SUMS_OF_##n                                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                          \
                   "r"(static_cast<i32>(adds)));                                                \
  }

ATTNLAB_WGMMA_SS(f16, 32, 16, 17, 18, 19, 20)
ATTNLAB_WGMMA_SS(f16, 40, 20, 21, 22, 23, 24)
ATTNLAB_WGMMA_SS(f16, 64, 32, 33, 34, 35, 36)
ATTNLAB_WGMMA_SS(f16, 80, 40, 41, 42, 43, 44)
ATTNLAB_WGMMA_SS(f16, 96, 48, 49, 50, 51, 52)
ATTNLAB_WGMMA_SS(f16, 112, 56, 57, 58, 59, 60)
ATTNLAB_WGMMA_SS(f16, 128, 64, 65, 66, 67, 68)
ATTNLAB_WGMMA_SS(f16, 144, 72, 73, 74, 75, 76)
ATTNLAB_WGMMA_SS(f16, 160, 80, 81, 82, 83, 84)
ATTNLAB_WGMMA_SS(f16, 176, 88, 89, 90, 91, 92)
ATTNLAB_WGMMA_SS(f16, 192, 96, 97, 98, 99, 100)
ATTNLAB_WGMMA_SS(f16, 256, 128, 129, 130, 131, 132)
ATTNLAB_WGMMA_RS(f16, 64, 32, 33, 34, 35, 36, 37, 38)
ATTNLAB_WGMMA_RS(f16, 80, 40, 41, 42, 43, 44, 45, 46)
ATTNLAB_WGMMA_RS(f16, 96, 48, 49, 50, 51, 52, 53, 54)
ATTNLAB_WGMMA_RS(f16, 112, 56, 57, 58, 59, 60, 61, 62)
ATTNLAB_WGMMA_RS(f16, 128, 64, 65, 66, 67, 68, 69, 70)
ATTNLAB_WGMMA_RS(f16, 144, 72, 73, 74, 75, 76, 77, 78)
ATTNLAB_WGMMA_RS(f16, 160, 80, 81, 82, 83, 84, 85, 86)
ATTNLAB_WGMMA_RS(f16, 176, 88, 89, 90, 91, 92, 93, 94)
ATTNLAB_WGMMA_RS(f16, 192, 96, 97, 98, 99, 100, 101, 102)
ATTNLAB_WGMMA_RS(f16, 256, 128, 129, 130, 131, 132, 133, 134)
ATTNLAB_WGMMA_SS(bf16, 32, 16, 17, 18, 19, 20)
ATTNLAB_WGMMA_SS(bf16, 40, 20, 21, 22, 23, 24)
ATTNLAB_WGMMA_SS(bf16, 64, 32, 33, 34, 35, 36)
ATTNLAB_WGMMA_SS(bf16, 80, 40, 41, 42, 43, 44)
ATTNLAB_WGMMA_SS(bf16, 96, 48, 49, 50, 51, 52)
ATTNLAB_WGMMA_SS(bf16, 112, 56, 57, 58, 59, 60)
ATTNLAB_WGMMA_SS(bf16, 128, 64, 65, 66, 67, 68)
ATTNLAB_WGMMA_SS(bf16, 144, 72, 73, 74, 75, 76)
ATTNLAB_WGMMA_SS(bf16, 160, 80, 81, 82, 83, 84)
ATTNLAB_WGMMA_SS(bf16, 176, 88, 89, 90, 91, 92)
ATTNLAB_WGMMA_SS(bf16, 192, 96, 97, 98, 99, 100)
ATTNLAB_WGMMA_SS(bf16, 256, 128, 129, 130, 131, 132)
ATTNLAB_WGMMA_RS(bf16, 64, 32, 33, 34, 35, 36, 37, 38)
ATTNLAB_WGMMA_RS(bf16, 80, 40, 41, 42, 43, 44, 45, 46)
ATTNLAB_WGMMA_RS(bf16, 96, 48, 49, 50, 51, 52, 53, 54)
ATTNLAB_WGMMA_RS(bf16, 112, 56, 57, 58, 59, 60, 61, 62)
ATTNLAB_WGMMA_RS(bf16, 128, 64, 65, 66, 67, 68, 69, 70)
ATTNLAB_WGMMA_RS(bf16, 144, 72, 73, 74, 75, 76, 77, 78)
ATTNLAB_WGMMA_RS(bf16, 160, 80, 81, 82, 83, 84, 85, 86)
ATTNLAB_WGMMA_RS(bf16, 176, 88, 89, 90, 91, 92, 93, 94)
ATTNLAB_WGMMA_RS(bf16, 192, 96, 97, 98, 99, 100, 101, 102)
ATTNLAB_WGMMA_RS(bf16, 256, 128, 129, 130, 131, 132, 133, 134)

ATTNLAB_WGMMA_SS_E4M3(64, 32, 33, 34)
ATTNLAB_WGMMA_SS_E4M3(128, 64, 65, 66)
ATTNLAB_WGMMA_SS_E4M3(192, 96, 97, 98)
ATTNLAB_WGMMA_RS_E4M3(64, 32, 33, 34, 35, 36, 37)
ATTNLAB_WGMMA_RS_E4M3(128, 64, 65, 66, 67, 68, 69)
ATTNLAB_WGMMA_RS_E4M3(192, 96, 97, 98, 99, 100, 101)
ATTNLAB_WGMMA_RS_E4M3(256, 128, 129, 130, 131, 132, 133)

#undef ATTNLAB_NAMES_0
#undef ATTNLAB_NAMES_1
#undef ATTNLAB_NAMES_2
#undef ATTNLAB_NAMES_3
#undef ATTNLAB_NAMES_4
#undef ATTNLAB_NAMES_5
#undef ATTNLAB_NAMES_6
#undef ATTNLAB_NAMES_7
#undef ATTNLAB_NAMES_8
#undef ATTNLAB_NAMES_9
#undef ATTNLAB_NAMES_10
#undef ATTNLAB_NAMES_11
#undef ATTNLAB_NAMES_12
#undef ATTNLAB_NAMES_13
#undef ATTNLAB_NAMES_14
#undef ATTNLAB_NAMES_15
#undef ATTNLAB_NAMES_OF_32
#undef ATTNLAB_SUMS_OF_32
#undef ATTNLAB_NAMES_OF_40
#undef ATTNLAB_SUMS_OF_40
#undef ATTNLAB_NAMES_OF_64
#undef ATTNLAB_SUMS_OF_64
#undef ATTNLAB_NAMES_OF_80
#undef ATTNLAB_SUMS_OF_80
#undef ATTNLAB_NAMES_OF_96
#undef ATTNLAB_SUMS_OF_96
#undef ATTNLAB_NAMES_OF_112
#undef ATTNLAB_SUMS_OF_112
#undef ATTNLAB_NAMES_OF_128
#undef ATTNLAB_SUMS_OF_128
#undef ATTNLAB_NAMES_OF_144
#undef ATTNLAB_SUMS_OF_144
#undef ATTNLAB_NAMES_OF_160
#undef ATTNLAB_SUMS_OF_160
#undef ATTNLAB_NAMES_OF_176
#undef ATTNLAB_SUMS_OF_176
#undef ATTNLAB_NAMES_OF_192
#undef ATTNLAB_SUMS_OF_192
#undef ATTNLAB_NAMES_OF_256
#undef ATTNLAB_SUMS_OF_256
#undef ATTNLAB_SUMS
#undef ATTNLAB_WGMMA_SS
#undef ATTNLAB_WGMMA_RS
#undef ATTNLAB_WGMMA_SS_E4M3
#undef ATTNLAB_WGMMA_RS_E4M3

}  // namespace attnlab::ptx
