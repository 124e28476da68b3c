// sm_75. PTX ISA: ldmatrix. A warp reads four 8x8 matrices of 16-bit values from shared memory:
// lane l gives the address of row l % 8 of matrix l / 8, of 16 bytes that are aligned so. Of matrix
// i a lane gets in to[i] the pair (lane / 4, 2 * (lane % 4)..); with trans, of the transposed
// matrix.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

__device__ inline void ldmatrix_x4(u32 (&to)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

__device__ inline void ldmatrix_x4_trans(u32 (&to)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

}  // namespace attnlab::ptx
