// Says how a user states a block pattern.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attnlab {

// BlocksSpec says which blocks of the attention matrix are visible; i and j number them.
//   butterfly              i == j or i xor j is a power of two (FlashAttention, section 3.3)
//   local:W                |i - j| <= W
//   strided:W:S            local:W, or (i - j) mod S == 0 (Sparse Transformer)
//   longformer:W:G         local:W, or i < G or j < G: global blocks (Longformer)
//   bigbird:W:G:R[:SEED]   longformer:W:G, and R random blocks a row (BigBird): j = n mod blocks_k
//                          of R draws n with replacement
//   random:PERCENT[:SEED]  i == j, or n < PERCENT / 100 * 2^32
//   file=PATH              a text file: one line a row of blocks, one character a block, '1' if
//                          visible, else '0', blanks ignored. PATH holds none of ':', '+', ','.
// n is the first word of Philox under the key SEED (default 0), of the counter {t, i, 1, 0} for
// draw t of bigbird and {j, i, 0, 0} for random.
struct BlocksSpec {
  std::string pattern;  // the name, or "file=PATH"
  std::vector<std::int64_t> arguments;
  int block_q = 0;
  int block_k = 0;
  bool operator==(const BlocksSpec&) const = default;
};

}  // namespace attnlab
