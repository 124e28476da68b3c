// What the two warps of a team send each other of a slice of rows (forward_team.cuh has a picture):
//
//   once a slice               maximum and sum of each row that the other warp combines
//   once a chunk of columns    P V of the other warp's share, fp32
//
// Parts of P V go to two places by turns, so one barrier of the team a chunk is enough: whoever
// writes a place again has passed the barrier behind its reading. The first chunk's barrier is that
// of the maxima and sums, too (ForwardConfig::softmax_places says how many places they need).
#pragma once

#include "kernels/device/softmax.cuh"
#include "kernels/v1/forward_team.cuh"

namespace attnlab::v1 {

// Places in shared memory for the softmaxes and the parts of O that a warp sends. Of a lane's
// values they are in the order of its registers, so that the lane of the other warp finds its own.
template <ForwardConfig kConfig>
struct Exchange {
  using Share = ForwardShare<kConfig>;
  static constexpr ForwardTiles kTiles = forward_tiles(kConfig);
  static constexpr i32 kSplits = kConfig.splits;
  static constexpr i32 kShareBytes = Share::kOwnRows * Share::kOwnBlocks * device::kWarp * 16;
  const ForwardTeam<kConfig>& team;
  OnlineSoftmax* sSoftmaxes;  // of the slice

  // Takes the other place at each slice, where there are two (ForwardConfig::softmax_places).
  __device__ Exchange(const ForwardTeam<kConfig>& of_team, i32 turn) : team(of_team) {
    sSoftmaxes = reinterpret_cast<OnlineSoftmax*>(team.memory + kTiles.softmaxes_of(0)) +
                 turn % kConfig.softmax_places() * kSplits * kConfig.own_rows() + team.lane / 4;
  }

  __device__ void send_softmaxes(const device::RowStates<Share::kRows>& own) const {
    if (kSplits == 1 || team.lane % 4 != 0) return;
    device::for_own_rows<Share::kOwnRows>([&](i32 r, i32 half) {
      sSoftmaxes[team.split * kConfig.own_rows() + 16 * r + 8 * half] =
          own.at[Share::kSentRow + r][half];
    });
  }
  __device__ OnlineSoftmax other_softmax(i32 r, i32 half) const {
    return sSoftmaxes[(team.split ^ 1) * kConfig.own_rows() + 16 * r + 8 * half];
  }

  __device__ void send_block(u8* sParts, i32 r, i32 block, const float (&sent)[4]) const {
    *reinterpret_cast<float4*>(sParts + team.split * kShareBytes +
                               (r * Share::kOwnBlocks + block) * device::kWarp * 16) = {
        sent[0], sent[1], sent[2], sent[3]};
  }
  __device__ float4 other_block(const u8* sParts, i32 r, i32 block) const {
    return *reinterpret_cast<const float4*>(sParts + (team.split ^ 1) * kShareBytes +
                                            (r * Share::kOwnBlocks + block) * device::kWarp * 16);
  }
};

}  // namespace attnlab::v1
