// Defines the ring of stages through which producers hand tiles to consumers, and the parity
// convention of its barriers. Source: the PTX ISA on mbarrier phases; CUTLASS calls the same pair a
// pipeline state.
//
// Every stage has two barriers. "full" completes a phase when the tile has been written, "empty"
// when every consumer has read it. A barrier remembers only the parity of the phase it is in, so a
// side that waits must itself know which phase it means; that is what PipelineState counts:
//
//   consumer   waits for the fill it expects: full, parity 0 the first time round the ring, then 1,
//              0, ...
//   producer   waits for the stage to have been read: empty, parity 1 the first time round. Nobody
//              reads a stage before its first fill, and a fresh barrier (in phase 0) lets a wait on
//              parity 1 pass, as if a phase before the first had ended.
//
// State runs on from tile to tile of a block that stays resident: it is never derived anew from an
// index within the tile, and whatever a tile skips, every role skips.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

// PipelineState says where one role stands in a ring.
struct PipelineState {
  i32 stage = 0;
  u32 phase = 0;  // the parity that the next wait names

  ATTNLAB_HD constexpr void advance(i32 stages) {
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }
  ATTNLAB_HD friend constexpr bool operator==(const PipelineState&, const PipelineState&) = default;
};

ATTNLAB_HD constexpr PipelineState consumer_start() { return {.stage = 0, .phase = 0}; }
ATTNLAB_HD constexpr PipelineState producer_start() { return {.stage = 0, .phase = 1}; }

// Returns whether a wait on `parity` passes at a barrier in a phase of parity `current`: the phase
// before, which has the other parity, is complete.
ATTNLAB_HD constexpr bool phase_complete(u32 current, u32 parity) { return current != parity; }

// Returns who passes an order barrier next (named barriers: everyone waits at its own and arrives
// at the next one's; the first is primed once).
ATTNLAB_HD constexpr i32 next_in_order(i32 consumer, i32 consumers) {
  return consumer + 1 == consumers ? 0 : consumer + 1;
}

}  // namespace attnlab
