// Does v2's backward's work beside the products: tiles come and go, and dQ is added to its sums.
#pragma once

#include "kernels/shared/params.h"
#include "kernels/v2/backward_parts.cuh"
#include "kernels/v2/dq_sums.cuh"

namespace attnlab::v2 {

// BackwardWork holds what a block does for its tile of keys, one function a part.
template <class T, BackwardConfig kConfig, bool kFromSaved>
struct BackwardWork {
  using Parts = BackwardParts<kConfig>;
  using TransposedScores = typename Parts::TransposedScores;
  using Keys = typename Parts::Keys;
  using Rows = typename Parts::Rows;
  static constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  static constexpr i32 kThreads = kConfig.warps * device::kWarp;
  // A warp takes kSlice rows at once: all of its part, or, where it has all rows or needs registers
  // for what was saved, some of them.
  static constexpr i32 kSlice = kFromSaved               ? 16
                                : kConfig.p_in_registers ? slice_rows(kConfig.block_m)
                                                         : TransposedScores::own_query_rows();
  using Slice = device::Accumulator<TransposedScores::own_keys() / 16, kSlice / 8>;
  static_assert(TransposedScores::own_query_rows() % kSlice == 0,
                "a warp takes its rows in whole slices");
  static_assert(kConfig.stages == 2, "Q and dO of the next step arrive during a step");

  const Params& params;
  const BackwardWorkspace& workspace;
  decltype(BackwardArguments<T>::tensors) tensors;
  BackwardMemory<kConfig> memory;
  const BackwardBlock& sBlock;
  i32 head_dim;

  // Starts the copies of K and V.
  __device__ void load_keys() const {
    const Shape& shape = params.shape;
    const i32 valid = static_cast<i32>(sBlock.mask.valid_k - sBlock.keys.begin);
    device::load_tile<kTiles.kv, kThreads>(tensors.gK + sBlock.key_offset, shape.k.row, valid,
                                           head_dim, memory.k());
    device::load_tile<kTiles.kv, kThreads>(tensors.gV + sBlock.key_offset, shape.k.row, valid,
                                           head_dim, memory.v());
  }

  // Starts the copies of a step's Q, dO, lse and delta.
  __device__ void load_rows(const device::BackwardStep& step, i32 stage) const {
    const Shape& shape = params.shape;
    const i32 first = step.m_block * kConfig.block_m;
    const i32 exist = static_cast<i32>(sBlock.mask.seqlen_q) - first;
    const i64 offset = sBlock.row_offset + step.head * shape.q.head + first * shape.q.row;
    device::load_tile<kTiles.q, kThreads>(tensors.gQ + offset, shape.q.row, exist, head_dim,
                                          memory.q(stage));
    device::load_tile<kTiles.q, kThreads>(tensors.gDO + offset, shape.q.row, exist, head_dim,
                                          memory.dout(stage));
    const i64 statistics = (sBlock.first_head + step.head) * shape.seqlen_q + first;
    for (i32 row = static_cast<i32>(threadIdx.x); row < kConfig.block_m; row += kThreads) {
      const u32 bytes = row < exist ? 4 : 0;
      ptx::cp_async_ca_4(memory.at(kTiles.lse_of(stage) + 4 * row), tensors.gLse + statistics + row,
                         bytes);
      ptx::cp_async_ca_4(memory.at(kTiles.delta_of(stage) + 4 * row),
                         workspace.delta + statistics + row, bytes);
    }
  }

  // Adds the warp's part of dQ to the sums of the step's rows.
  __device__ void add_to_sums(const device::BackwardStep& step,
                              const typename Rows::Accumulator& rDQ) const {
    const i64 m_blocks = ceil_div<i64>(params.shape.seqlen_q, kConfig.block_m);
    const i64 tile = (sBlock.first_head + step.head) * m_blocks + step.m_block;
    float* const gSums = dq_sums_of<kConfig>(workspace, tile);
    if (workspace.dq_semaphores != nullptr) {
      const i32 next =
          sBlock.seen_before == nullptr ? sBlock.n_block - 1 : sBlock.seen_before[step.m_block];
      add_dq_in_order<Rows>(rDQ, gSums, workspace.dq_semaphores + tile, sBlock.n_block, next);
    } else {
      add_dq<Rows>(rDQ, gSums);
    }
  }

  // Stores dK and dV by way of the tiles of K and V.
  __device__ void store_keys(typename Keys::Accumulator& rDK,
                             typename Keys::Accumulator& rDV) const {
    const Shape& shape = params.shape;
    __syncthreads();  // all are done with them
    rDK.scale(shape.softmax_scale);
    rDV.scale(params.dropout.keep_scale);
    device::store_accumulator<T, kTiles.kv>(rDK, memory.k(), Keys::row(), Keys::column());
    device::store_accumulator<T, kTiles.kv>(rDV, memory.v(), Keys::row(), Keys::column());
    __syncthreads();
    constexpr i32 kWarpRows = kConfig.block_n / kConfig.warps;
    const i32 own = static_cast<i32>(threadIdx.x) / device::kWarp * kWarpRows;
    const i32 exist = static_cast<i32>(min<i64>(kWarpRows, sBlock.keys.size() - own));
    const i64 offset = sBlock.key_offset + own * shape.k.row;
    device::store_rows<kTiles.kv, kWarpRows>(memory.memory + kTiles.k(), own, exist,
                                             tensors.gDK + offset, shape.k.row, head_dim);
    device::store_rows<kTiles.kv, kWarpRows>(memory.memory + kTiles.v(), own, exist,
                                             tensors.gDV + offset, shape.k.row, head_dim);
  }
};

}  // namespace attnlab::v2
