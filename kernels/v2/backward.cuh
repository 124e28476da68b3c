// Implements v2's backward on a GPU: FlashAttention-2's Algorithm 2 with mma.sync and cp.async.
//
// Against v1 a thread block owns one tile of keys for good, so blocks run side by side along the
// keys, and dK and dV never leave registers until they are complete. Only dQ belongs to somebody
// else: it is summed in fp32 in device memory, by atomic additions in whatever order the blocks
// come, or, deterministic, by descending keys, in which a semaphore for each tile of rows holds
// them: under a causal mask or a window the first rows that a tile of keys meets are then those to
// which it is the first to add, so that all blocks go on side by side; by ascending keys each would
// wait for the last step of its neighbour. Four kernels:
// prepare_rows (delta = rowsum(dO * O), clears the sums), backward, backward_from_saved, which has
// something to do only where logits are so large that lse, one fp32 number, does not hold them, and
// finish_rows (sums to dQ). backward_rows.cuh has the first and the last of them, dq_sums.cuh the
// sums.
//
// Scores are kept transposed, keys x rows. Then P^T and dS^T, which dV += P^T dO and dK += dS^T Q
// take as A, lie in registers just as the tensor cores want them. Where a warp has all
// rows of its keys (p_in_registers) they go from one product into the next without being stored;
// only dS passes through shared memory, for dQ += dS K, whose rows are spread over all warps. Where
// tiles of dK and dV are too large for that, P and dS both are shared, and warps divide each
// product anew. The products, and how k runs in a tile of shared memory (warp_product.cuh):
//
//   product         A                                              B
//   --------------  ---------------------------------------------  ------------
//   S^T = K Q^T     K, K-major                                     Q, K-major
//   dP^T = V dO^T   V, K-major                                     dO, K-major
//   dV += P^T dO    P^T, in registers or shared memory, K-major    dO, MN-major
//   dK += dS^T Q    dS^T, likewise                                 Q, MN-major
//   dQ = dS K       dS^T, in shared memory either way, MN-major    K, MN-major
#pragma once

#include "kernels/device/fragments.cuh"
#include "kernels/device/softmax_backward.cuh"
#include "kernels/shared/params.h"
#include "kernels/v2/backward_block.cuh"
#include "kernels/v2/backward_rows.cuh"
#include "kernels/v2/backward_work.cuh"

namespace attnlab::v2 {

// Computes dK and dV of a tile of keys, and its part of dQ, if this kernel has the tile's heads:
// one computes P from lse, the other from what the forward saved.
//
// It is long because the loops that make P and dS of a slice, and the tiles of products that add to
// dV, dK and dQ, stay in it: in functions of their own they give NVRTC 13.0 another order of
// accumulators, and ptxas other registers.
template <class T, BackwardConfig kConfig, bool kFromSaved>
__device__ void backward_of_keys(const BackwardArguments<T>& arguments, i64 index) {
  using namespace device;
  using Work = BackwardWork<T, kConfig, kFromSaved>;
  using Slice = typename Work::Slice;
  using TransposedScores = typename Work::TransposedScores;
  using Keys = typename Work::Keys;
  using Rows = typename Work::Rows;
  constexpr BackwardTiles kTiles = Work::kTiles;
  constexpr i32 kSlice = Work::kSlice;
  const Params& params = arguments.params;
  const BackwardWorkspace& workspace = arguments.workspace;
  const auto tensors = arguments.tensors;
  extern __shared__ __align__(128) u8 shared_memory[];
  const BackwardMemory<kConfig> memory(shared_memory);
  const u32 sK = memory.k(), sV = memory.v(), sDS = memory.ds();
  BackwardBlock& sBlock = memory.block();

  // One thread finds the block's keys, and which tiles of rows see them.
  bool beyond_lse = false;
  if (threadIdx.x == 0) sBlock = backward_block(params, arguments.grid, kConfig, workspace, index);
  if (threadIdx.x >= kWarp) {
    beyond_lse = is_beyond_lse<kConfig>(params.shape, arguments.grid, workspace, index);
  }
  if (any_of_block(beyond_lse) != kFromSaved) return;
  if (sBlock.keys.empty()) return;  // a packed entry shorter than the longest

  const Work work = {params, workspace, tensors,
                     memory, sBlock,    static_cast<i32>(params.shape.head_dim)};
  typename Keys::Accumulator rDK, rDV;  // (own keys, own columns)
  rDK.clear();
  rDV.clear();
  const Shape& shape = params.shape;
  BackwardStep step = BackwardStep::first(sBlock);
  if (step.exists(sBlock)) {
    work.load_keys();
    work.load_rows(step, 0);
  }
  ptx::cp_async_commit_group();
  for (i32 stage = 0; step.exists(sBlock); step.advance(sBlock), stage ^= 1) {
    ptx::cp_async_wait_group<0>();
    // The rows are there for all, and all are done with the step before: this one may overwrite its
    // dS (and P), and the loads below its Q and dO.
    __syncthreads();
    BackwardStep ahead = step;
    ahead.advance(sBlock);
    const u32 sQ = memory.q(stage), sDO = memory.dout(stage);
    const i32 first_row = step.m_block * kConfig.block_m;

#pragma unroll 1
    for (i32 slice = 0; slice < TransposedScores::own_query_rows() / kSlice; ++slice) {
      const i32 own_row = TransposedScores::first_query_row() + slice * kSlice;  // within the tile
      Slice rP, rDS;  // (own keys, slice)
      const i32 own_key = TransposedScores::first_key();
      multiply_k_major<T, kTiles.kv, kTiles.q>(rDS, sV, own_key, sDO, own_row);  // dP^T = V dO^T
      multiply_k_major<T, kTiles.kv, kTiles.q>(rP, sK, own_key, sQ, own_row);    // S^T = K Q^T
      const i32 lane = kFromSaved ? opaque_lane() : static_cast<i32>(threadIdx.x) % kWarp;
      const i32 lane_row = own_row + 2 * (lane % 4);  // of its pairs
      if constexpr (kFromSaved) {                     // P^T = exp(S^T - max) / sum
        const float* const sLse = memory.lse(stage) + lane_row;
        const i64 statistics = (sBlock.first_head + step.head) * shape.seqlen_q + first_row;
        const OnlineSoftmax* const gOwn = tensors.gSaved + statistics + lane_row;
        const i32 exist = static_cast<i32>(sBlock.mask.seqlen_q) - first_row - lane_row;
        recompute_p_of_states(rP, shape.softmax_scale_log2, [&](i32 row) {
          return row < exist ? softmax_of_row(sLse[row], gOwn + row) : OnlineSoftmax{};
        });
      } else {
#pragma unroll
        for (i32 c = 0; c < kSlice / 8; ++c) {  // P^T = exp(S^T - lse)
          const float2 lse = memory.pair(kTiles.lse_of(stage), lane_row + 8 * c);
          const float log2_lse[2] = {lse.x * kLog2E, lse.y * kLog2E};
          recompute_p_of_lse(rP, c, shape.softmax_scale_log2,
                             [&](i32 i) { return log2_lse[i % 2]; });
        }
      }
      // In a row that sees nothing lse is -inf, and P of it is +inf so far. The mask clears it: a
      // tile that has such a row is never full.
      if (sBlock.tiles.is_partial(step.m_block)) {
        for_hidden_transposed<TransposedScores::own_keys() / 16, kSlice / 8>(
            sBlock.mask, first_row + own_row, sBlock.keys.begin + TransposedScores::first_key(),
            [&](i32 r, i32 c, i32 i) { rP.at[r][c][i] = 0.0f; });
      }
#pragma unroll
      for (i32 c = 0; c < kSlice / 16; ++c) {  // dS^T = P^T (Z dP^T - delta)
        const i32 delta = kTiles.delta_of(stage);
        const float2 deltas[2] = {memory.pair(delta, lane_row + 16 * c),
                                  memory.pair(delta, lane_row + 16 * c + 8)};
#pragma unroll
        for (i32 r = 0; r < TransposedScores::own_keys() / 16; ++r) {
          u32 kept = 0xFF;
          if constexpr (kConfig.dropout) {
            kept = kept_bits_transposed(params.dropout, sBlock.first_head + step.head,
                                        first_row + own_row + 16 * c,
                                        sBlock.keys.begin + TransposedScores::first_key() + 16 * r);
          }
          softmax_backward<kConfig.dropout>(rP, rDS, r, c, deltas, kept, params.dropout.keep_scale);
        }
      }
      if constexpr (kConfig.p_in_registers) {
        const MnMajorB<kTiles.q> dO(sDO, own_row, 0), q(sQ, own_row, 0);
        multiply_add_rounded<T>(rDV, rP, dO);  // dV += P^T dO, while dS is stored
        store_accumulator<T, kTiles.p>(rDS, sDS, TransposedScores::first_key(), own_row);
        multiply_add_rounded<T>(rDK, rDS, q);  // dK += dS^T Q
      } else {
        store_accumulator<T, kTiles.p>(rP, memory.p(), TransposedScores::first_key(), own_row);
        store_accumulator<T, kTiles.p>(rDS, sDS, TransposedScores::first_key(), own_row);
      }
    }
    __syncthreads();  // shows dS (and P) to all warps

    if (ahead.exists(sBlock)) work.load_rows(ahead, stage ^ 1);
    ptx::cp_async_commit_group();
    if constexpr (!kConfig.p_in_registers) {
      multiply_add_part<Keys, T, kTiles.p, kTiles.q>(rDV, memory.p(), sDO);  // dV += P^T dO
      multiply_add_part<Keys, T, kTiles.p, kTiles.q>(rDK, sDS, sQ);          // dK += dS^T Q
    }
    typename Rows::Accumulator rDQ;  // (own rows, own columns)
    rDQ.clear();
    const MnMajorA<kTiles.p> ds(sDS, 0, Rows::row());
    const MnMajorB<kTiles.kv> k(sK, 0, Rows::column());
    multiply_add_tiles<T, kConfig.block_n / 16>(rDQ, ds, k);  // dQ = dS K
    work.add_to_sums(step, rDQ);
  }
  work.store_keys(rDK, rDV);
}

template <class T, BackwardConfig kConfig>
__device__ void backward(const BackwardArguments<T>& arguments) {
  backward_of_keys<T, kConfig, false>(arguments,
                                      next_tile<kConfig>(arguments.workspace, 0, blockIdx.x));
}

// Each block loops over tiles of keys, since there is seldom any tile that needs this kernel.
template <class T, BackwardConfig kConfig>
__device__ void backward_from_saved(const BackwardArguments<T>& arguments) {
  const Shape& shape = arguments.params.shape;
  const WorkGrid& grid = arguments.grid;
  const BackwardWorkspace& workspace = arguments.workspace;
  const i64 row_tiles =
      grid.batch * shape.num_heads_q * ceil_div<i64>(shape.seqlen_q, kConfig.block_m);
  bool beyond_lse = false;
  for (i64 i = threadIdx.x; i < row_tiles; i += kConfig.warps * device::kWarp) {
    beyond_lse |= workspace.beyond_lse[i] != 0;
  }
  if (!device::any_of_block(beyond_lse)) return;
  for (i64 own = blockIdx.x;; own += gridDim.x) {
    const i64 index = next_tile<kConfig>(workspace, 1, own);
    if (index >= work_items(grid)) return;
    backward_of_keys<T, kConfig, true>(arguments, index);
    __syncthreads();  // all are done with shared memory
  }
}

}  // namespace attnlab::v2
