// Says how v1's forward divides a slice of rows among the warps of a team.
//
// A slice of 32 rows (of a tile here, not of a head) by two warps, splits = 2: each has the scores
// of all 32 rows with its own half of the keys, and a partial O, P V of them. It keeps that of its
// own 16 rows and sends the other warp the rest:
//
//                keys of warp 0     keys of warp 1             O of a chunk of columns
//              +------------------+------------------+      +----------------------------------+
//   rows 0-15  | warp 0 keeps P V | warp 1 sends P V | ---> | warp 0: running O + both partial O |
//              +------------------+------------------+      +----------------------------------+
//   rows 16-31 | warp 0 sends P V | warp 1 keeps P V | ---> | warp 1: running O + both partial O |
//              +------------------+------------------+      +----------------------------------+
//
// Statistics of rows, maximum and sum, are sent alike. Slices of 16 rows are halved by columns
// instead.
#pragma once

#include "kernels/device/team.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/v1/schedule.h"

namespace attnlab::v1 {

// ForwardTeam is a team of warps as one of its threads sees it: its shared memory and its barrier.
template <ForwardConfig kConfig>
struct ForwardTeam {
  static constexpr i32 kThreads = kConfig.splits * device::kWarp;
  i32 team;
  i32 split;  // the warp, of the team
  i32 lane;
  i32 thread;  // of the team
  u8* memory;  // the block's, shifted to the team's part
  u32 shared;  // address of the block's
  i32 shift;   // from the part of team 0

  __device__ ForwardTeam(u8* shared_memory, u32 address) : shared(address) {
    const i32 warp = static_cast<i32>(threadIdx.x) / device::kWarp;
    lane = static_cast<i32>(threadIdx.x) % device::kWarp;
    team = warp / kConfig.splits;
    split = warp % kConfig.splits;
    thread = split * device::kWarp + lane;
    shift = team * forward_tiles(kConfig).team_bytes();
    memory = shared_memory + shift;
  }

  __device__ u32 at(i32 offset) const {
    return shared + static_cast<u32>(offset) + static_cast<u32>(shift);
  }
  __device__ void sync() const {
    if constexpr (kConfig.splits == 1) {
      __syncwarp();
    } else {
      ptx::barrier_sync(1 + team, kThreads);
    }
  }
};

// ForwardShare is the part of kRows x kBlocks fragments that a warp combines: half of the rows or,
// of 16 rows, of the columns. A warp keeps its own share in the first fragments of its accumulator
// and sends the last: so the registers are the same for all warps, the rows and columns are not.
template <ForwardConfig kConfig>
struct ForwardShare {
  static constexpr i32 kRows = kConfig.slice_rows / 16;  // fragments of a slice's rows
  static constexpr i32 kBlocks =
      kConfig.columns / 8;  // blocks of columns that are combined at once
  static constexpr i32 kOwnRows = kConfig.own_rows() / 16;
  static constexpr i32 kOwnBlocks = kConfig.own_columns() / 8;
  static constexpr i32 kSentRow = kRows - kOwnRows, kSentBlock = kBlocks - kOwnBlocks;
  static_assert(kOwnRows * kOwnBlocks * kConfig.splits == kRows * kBlocks && kOwnBlocks % 2 == 0,
                "warps combine alike much, in fragments of 16x16");
  i32 row;     // the first that the warp combines, of a slice
  i32 block;   // the first of 8 columns, of a chunk
  i32 offset;  // of the lane's first four values in the running O of a tile

  // Returns the rows of a slice that the warp has in fragment r of its accumulator.
  __device__ i32 row_of(i32 r) const { return r == 0 ? row : 16 - row; }
  // Returns where block (r, c) of 16x8 lies in the running O of a tile, which is stored as the
  // tensor cores leave it, 512 bytes a block.
  static __device__ i32 offset_of(i32 r, i32 c) {
    return (r * (kConfig.head_dim / 8) + c) * device::kWarp * 4;
  }
};

}  // namespace attnlab::v1
