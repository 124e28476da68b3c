// Reduces across the warps of a team whose two warps split the keys: this is what they send each
// other of a slice of rows (forward_team.cuh has a picture).
//
// - once a slice: the statistics, maximum and sum, of each row that the other warp combines;
// - once a chunk of columns: partial O of the other warp's share, P V of these keys, in fp32.
//
// Partial O is double-buffered, so one barrier of the team a chunk is enough: whoever writes a
// buffer again has passed the barrier behind its reading. The first chunk's barrier is that of the
// statistics, too (ForwardConfig::statistics_buffers says how many buffers they need).
#pragma once

#include "kernels/device/softmax.cuh"
#include "kernels/v1/forward_team.cuh"

namespace attnlab::v1 {

// Sends and receives through shared memory. A lane's values of partial O lie there in the order of
// its registers, so that the same lane of the other warp finds its own.
template <ForwardConfig kConfig>
struct CrossWarpReduction {
  using Share = ForwardShare<kConfig>;
  static constexpr ForwardTiles kTiles = forward_tiles(kConfig);
  static constexpr i32 kSplits = kConfig.splits;
  static constexpr i32 kShareBytes = Share::kOwnRows * Share::kOwnBlocks * device::kWarp * 16;
  const ForwardTeam<kConfig>& team;
  OnlineSoftmax* sStatistics;  // of the slice

  // With two statistics buffers, slices of even and odd parity use one each.
  __device__ CrossWarpReduction(const ForwardTeam<kConfig>& of_team, i32 parity) : team(of_team) {
    sStatistics = reinterpret_cast<OnlineSoftmax*>(team.memory + kTiles.statistics_of(0)) +
                  parity % kConfig.statistics_buffers() * kSplits * kConfig.own_rows() +
                  team.lane / 4;
  }

  __device__ void send_statistics(const device::RowStates<Share::kRows>& own) const {
    if (kSplits == 1 || team.lane % 4 != 0) return;
    device::for_own_rows<Share::kOwnRows>([&](i32 r, i32 half) {
      sStatistics[team.split * kConfig.own_rows() + 16 * r + 8 * half] =
          own.at[Share::kSentRow + r][half];
    });
  }
  __device__ OnlineSoftmax other_statistics(i32 r, i32 half) const {
    return sStatistics[(team.split ^ 1) * kConfig.own_rows() + 16 * r + 8 * half];
  }

  __device__ void send_partial_o(u8* sPartialO, i32 r, i32 block, const float (&sent)[4]) const {
    *reinterpret_cast<float4*>(sPartialO + team.split * kShareBytes +
                               (r * Share::kOwnBlocks + block) * device::kWarp * 16) = {
        sent[0], sent[1], sent[2], sent[3]};
  }
  __device__ float4 other_partial_o(const u8* sPartialO, i32 r, i32 block) const {
    return *reinterpret_cast<const float4*>(sPartialO + (team.split ^ 1) * kShareBytes +
                                            (r * Share::kOwnBlocks + block) * device::kWarp * 16);
  }
};

}  // namespace attnlab::v1
