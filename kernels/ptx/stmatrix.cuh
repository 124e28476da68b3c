// sm_90. PTX ISA: stmatrix. A warp writes four 8x8 matrices of 16-bit values to shared memory, the
// inverse of ldmatrix: lane l gives the address of row l % 8 of matrix l / 8, of 16 bytes that are
// aligned so, and holds of matrix i, in from[i], the pair (lane / 4, 2 * (lane % 4)..).
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

__device__ inline void stmatrix_x4(u32 address, const u32 (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

// Writes four matrices, each transposed on its way: row r in memory is column r of what lanes hold.
// x2 stores two matrices, whose rows' addresses lanes 0 to 15 give.
__device__ inline void stmatrix_x4_trans(u32 address, const u32 (&from)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
      : "memory");
}

__device__ inline void stmatrix_x2_trans(u32 address, const u32 (&from)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address),
               "r"(from[0]), "r"(from[1])
               : "memory");
}

}  // namespace attnlab::ptx
