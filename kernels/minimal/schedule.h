// minimal: a block of 32 workers owns 32 query rows of one (batch, head) slice, one row each, and
// passes over all keys in tiles of 32. Per slice of n rows and m keys it reads n d + 2 ceil(n / 32)
// m d elements and writes n d + n: each block reads all of K and V.
#pragma once

#include "kernels/shared/layout.h"

namespace attnlab::minimal {

constexpr i32 kBlock = 32;  // workers of a block (= query rows), and keys of a tile
constexpr Tiling kTiling = {.block_m = kBlock, .block_n = kBlock};

}  // namespace attnlab::minimal
