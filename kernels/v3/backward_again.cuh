// Does the backward of heads whose logits are so large that lse does not hold them all (lse_holds
// of shared/softmax.h). P takes a row's maximum and sum, which v3's forward does not leave, and
// scores equal to the bit to those that gave the maximum. So a warp finds both once more, row by
// row, by mma.sync, as attend_again.cuh does; tensor cores then multiply nothing else. That takes
// long, and is rare. If one head that shares a K/V head goes this way, all do: they share dK.
#pragma once

#include "kernels/device/attend_again.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/shared/softmax.h"
#include "kernels/v3/backward_turns.cuh"

namespace attnlab::v3 {

// Returns whether this thread sees a flag that lse does not hold a logit of the heads of an item's
// group. The first warp does not look: in backward() it has other work meanwhile.
__device__ inline bool is_group_beyond_lse(const BackwardSizes& sizes, i64 index) {
  constexpr i32 kFirst = device::kWarp;
  const i32 thread = static_cast<i32>(threadIdx.x), threads = static_cast<i32>(blockDim.x);
  if (thread < kFirst) return false;
  const i64 tiles = sizes.params.shape.sharing() * sizes.rows.blocks;
  const i64 group = slice_place(sizes.keys, static_cast<u32>(index)).slice;
  const i32* const of_group = sizes.workspace.beyond_lse + group * tiles;
  bool beyond_lse = false;
  for (i32 i = thread - kFirst; i < tiles; i += threads - kFirst) beyond_lse |= of_group[i] != 0;
  return beyond_lse;
}

// Returns whether this thread sees any such flag. In a launch without one that is all that
// backward_again does, so a thread loads many at once, not one behind the other.
__device__ inline bool is_any_beyond_lse(const BackwardSizes& sizes) {
  constexpr i32 kAtOnce = 16;
  const i32 tiles = static_cast<i32>(work_items(sizes.rows));
  const i32 threads = static_cast<i32>(blockDim.x);
  bool beyond_lse = false;
  for (i32 first = static_cast<i32>(threadIdx.x); first < tiles; first += kAtOnce * threads) {
#pragma unroll
    for (i32 j = 0; j < kAtOnce; ++j) {
      const i32 i = first + j * threads;
      beyond_lse |= (i < tiles ? sizes.workspace.beyond_lse[i] : 0) != 0;
    }
  }
  return beyond_lse;
}

// Finds the states of rows beyond lse in the item's group; its tiles of keys share the work.
template <BackwardConfig kConfig, class T>
__device__ void find_states(const BackwardSizes& sizes, const BackwardPointers<T>& pointers,
                            const WorkItem& item, const BackwardWorkTile& sWorkTile) {
  using namespace device;
  const Shape& shape = sizes.params.shape;
  const i64 warps = sizes.keys.blocks * (kConfig.threads() / kWarp);  // of the group's blocks
  const i64 own = item.block * (kConfig.threads() / kWarp) + threadIdx.x / kWarp;
  const i64 rows = sWorkTile.mask.seqlen_q;
  for (i64 i = own; i < sWorkTile.heads * rows; i += warps) {
    const i64 head = sWorkTile.head + i / rows, row = i % rows;
    const i64 place = shape.row_statistic_offset(item.batch, head, row);
    if (lse_holds(pointers.gLse[place])) continue;
    const OnlineSoftmax state =
        attend_row<Scores::by_mma_sync>(sizes.params, item.batch, head, row, pointers.gQ,
                                        pointers.gK, pointers.gV, [](const Chunk<T>&, i64) {});
    if (opaque_lane() == 0) sizes.workspace.states[place] = state;
  }
}

// KeysAgain has a warp's 32 keys, one a lane; dK and dV are sums in shared memory, columns x keys.
template <class T, BackwardConfig kConfig>
class KeysAgain {
 public:
  static constexpr i32 kSums = kConfig.head_dim * device::kWarp;  // of dK and of dV
  static constexpr i32 kBytes = 2 * kSums * static_cast<i32>(sizeof(float));

  __device__ KeysAgain(const BackwardSizes& sizes, const BackwardPointers<T>& pointers,
                       const WorkItem& item, i64 first_key, float* sums)
      : sizes_(sizes),
        pointers_(pointers),
        shape_(sizes.params.shape),
        item_(item),
        entry_(batch_entry(sizes.params, item.batch)),
        first_(first_key),
        end_(tile_range(item.block, kConfig.block_n, entry_.mask.seqlen_k).end),
        lane_(device::opaque_lane()),
        head_dim_(static_cast<i32>(shape_.head_dim)),
        sDK_(sums),
        sDV_(sums + kSums) {
    const i64 offset = shape_.k.offset(item.batch, item.head, entry_.first_key + first_);
    key_offset_ = offset + lane_ * shape_.k.row;
    gKeys_ = pointers.gK + offset;
    for (i32 i = lane_; i < 2 * kSums; i += device::kWarp) sums[i] = 0.0f;
    __syncwarp();
  }

  __device__ void add_row(i64 head, i64 row) const {
    const Mask& mask = entry_.mask;
    const i64 key = first_ + lane_;
    const bool sees = key < end_ && is_visible(mask, row, key);
    if (!__any_sync(0xFFFFFFFFu, sees)) return;
    const Params& params = sizes_.params;
    const i64 offset = shape_.q.offset(item_.batch, head, entry_.first_row + row);
    const T* const gRow = pointers_.gQ + offset;
    const T* const gDORow = pointers_.gDO + offset;
    const i64 place = shape_.row_statistic_offset(item_.batch, head, row);
    const OnlineSoftmax state =
        softmax_of_row(pointers_.gLse[place], sizes_.workspace.states + place);
    const float score =
        device::scores_by_mma_sync(gRow, gKeys_, shape_.k.row, mask.seqlen_k - first_, head_dim_);
    float p = 0.0f, ds = 0.0f;
    if (sees) {
      const i64 slice = item_.batch * shape_.num_heads_q + head;
      p = exp2_f32(exponent(score, state.max, shape_.softmax_scale_log2)) * final_scale(state);
      const float dp = device::score_by_plain_sum(gDORow, pointers_.gV + key_offset_, head_dim_);
      const bool is_kept =
          params.dropout.threshold == 0 || attnlab::is_kept(params.dropout, slice, row, key);
      ds = p * ((is_kept ? dp * params.dropout.keep_scale : 0.0f) - delta(head, row));
      if (!is_kept) p = 0.0f;
    }
    add_to_keys(gRow, gDORow, p, ds);
    add_to_dq(head, row, ds);
  }

  // Waits until the warps that have the keys before have added to the row's tile, and lets the next
  // one add; `number` counts the warps of all of a head's tiles of keys.
  __device__ void take_turn(i64 head, i64 row, i32 number) const {
    if (lane_ == 0) wait_for_turn(turn_of(head, row), number);
    __syncwarp();
  }
  __device__ void pass_turn_on(i64 head, i64 row, i32 number) const {
    __syncwarp();
    if (lane_ == 0) ptx::st_release_gpu_global(turn_of(head, row), number + 1);
  }

  __device__ void store() const {
    if (first_ + lane_ >= end_) return;
    store_sums(sDK_, shape_.softmax_scale, pointers_.gDK + key_offset_);
    store_sums(sDV_, sizes_.params.dropout.keep_scale, pointers_.gDV + key_offset_);
  }

 private:
  __device__ i64 tile_of(i64 head, i64 row) const {
    return (item_.batch * shape_.num_heads_q + head) * sizes_.rows.blocks + row / kConfig.block_m;
  }
  __device__ i32* turn_of(i64 head, i64 row) const {
    return turns_of(sizes_.workspace, work_items(sizes_.rows)).added_again + tile_of(head, row);
  }
  __device__ float delta(i64 head, i64 row) const {
    return sizes_.workspace
        .statistics[(2 * tile_of(head, row) + 1) * kConfig.block_m + row % kConfig.block_m];
  }

  // Adds dV += P^T dO and dK += dS^T Q of one row.
  __device__ void add_to_keys(const T* gRow, const T* gDORow, float p, float ds) const {
    using namespace device;
#pragma unroll 1
    for (i32 x = 0; x < head_dim_; x += kChunk) {
      const Values q = decode(load_chunk(gRow + x)), dO = decode(load_chunk(gDORow + x));
#pragma unroll
      for (i32 j = 0; j < kChunk; ++j) {
        float& dk = sDK_[(x + j) * kWarp + lane_];
        float& dv = sDV_[(x + j) * kWarp + lane_];
        dk = fmaf(ds, q.at[j], dk);
        dv = fmaf(p, dO.at[j], dv);
      }
    }
  }

  // Adds dQ += dS K of one row: a lane has a chunk of it.
  __device__ void add_to_dq(i64 head, i64 row, float own_ds) const {
    using namespace device;
    const bool has_chunk = lane_ * kChunk < head_dim_;
    Values dq = {};
    for (i32 i = 0; i < kWarp; ++i) {
      const float ds = __shfl_sync(0xFFFFFFFFu, own_ds, i);
      if (ds == 0.0f || !has_chunk) continue;
      const Values k = decode(load_chunk(gKeys_ + i * shape_.k.row + lane_ * kChunk));
#pragma unroll
      for (i32 j = 0; j < kChunk; ++j) dq.at[j] = fmaf(ds, k.at[j], dq.at[j]);
    }
    if (!has_chunk) return;
    float* const gSums = dq_sums_of<kConfig>(sizes_.workspace, tile_of(head, row));
    const i32 own_row = static_cast<i32>(row % kConfig.block_m);
#pragma unroll
    for (i32 j = 0; j < kChunk; ++j) {
      atomicAdd(gSums + DqPart<kConfig>::place(own_row, lane_ * kChunk + j), dq.at[j]);
    }
  }

  __device__ void store_sums(const float* sums, float factor, T* gKey) const {
    using namespace device;
    for (i32 x = 0; x < head_dim_; x += kChunk) {
      Values values;
#pragma unroll
      for (i32 j = 0; j < kChunk; ++j) values.at[j] = sums[(x + j) * kWarp + lane_] * factor;
      store_chunk(encode<T>(values), gKey + x);
    }
  }

  const BackwardSizes& sizes_;
  const BackwardPointers<T>& pointers_;
  const Shape& shape_;
  const WorkItem& item_;
  const BatchEntry entry_;
  i64 first_;  // key
  i64 end_;    // of the tile's
  i32 lane_;
  i32 head_dim_;
  float *sDK_, *sDV_;
  i64 key_offset_;  // of the lane's
  const T* gKeys_;  // from the first on
};

// Loops over tiles of keys in each block; a warp has 32 keys of the tile.
template <class T, BackwardConfig kConfig>
__device__ void backward_again(const BackwardSizes& sizes, const BackwardPointers<T>& pointers) {
  using Keys = KeysAgain<T, kConfig>;
  extern __shared__ __align__(128) u8 shared_memory[];
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  if (!device::any_of_block(is_any_beyond_lse(sizes))) return;
  const i32 warp = static_cast<i32>(threadIdx.x) / device::kWarp;
  float* const sums = reinterpret_cast<float*>(shared_memory) + warp * (2 * Keys::kSums);
  constexpr i32 kWarps = ceil_div(kConfig.block_n, device::kWarp);
  const auto next_item = [&](i64 index) -> i64 {
    if constexpr (!kConfig.deterministic) return index;
    u32& sTicket = *reinterpret_cast<u32*>(shared_memory + kWarps * Keys::kBytes);
    claim_item(sizes, 1, sTicket);
    return sTicket;
  };
  for (i64 index = next_item(blockIdx.x); index < work_items(sizes.keys);
       index = next_item(index + gridDim.x)) {
    if (!device::any_of_block(is_group_beyond_lse(sizes, index))) continue;
    const WorkItem item = work_item(sizes.keys, index);
    const Mask mask = batch_entry(sizes.params, item.batch).mask;
    const i64 first_key = item.block * kConfig.block_n + warp * device::kWarp;
    if (first_key >= mask.seqlen_k) continue;
    const Keys keys(sizes, pointers, item, first_key, sums);
    const i32 number = static_cast<i32>(item.block) * kWarps + warp;
    const i64 heads = sizes.params.shape.sharing();
    for (i64 head = item.head * heads; head < (item.head + 1) * heads; ++head) {
      for (i64 row = 0; row < mask.seqlen_q; ++row) {
        const bool is_first = row % kConfig.block_m == 0;
        const bool is_last = (row + 1) % kConfig.block_m == 0 || row + 1 == mask.seqlen_q;
        if (kConfig.deterministic && is_first) keys.take_turn(head, row, number);
        keys.add_row(head, row);
        if (kConfig.deterministic && is_last) keys.pass_turn_on(head, row, number);
      }
    }
    keys.store();
  }
}

}  // namespace attnlab::v3
