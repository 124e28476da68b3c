// Notes when v3's kernels work on which item. Roles say so in ATTNLAB_NOTE(...), which is nothing
// in a unit that does not define ATTNLAB_TIMELINE: to the compiler its text is as if there were
// none of this. Empty functions in its place give ptxas another order of instructions.
#pragma once

#ifndef ATTNLAB_TIMELINE
#define ATTNLAB_NOTE(...)
#else
#define ATTNLAB_NOTE(...) __VA_ARGS__

#include "kernels/ptx/globaltimer.cuh"
#include "kernels/ptx/red.cuh"
#include "kernels/ptx/smid.cuh"
#include "kernels/shared/timeline.h"
#include "kernels/v3/backward_memory.cuh"
#include "kernels/v3/shared_memory.cuh"

namespace attnlab::v3 {

// TimelinePointer is the kernel's fourth parameter; to the host it is the pointer alone.
struct TimelinePointer {
  TimelineItem* gItems;
};

// Returns the low bits of the multiprocessor's clock.
__device__ inline u32 cycles_now() { return static_cast<u32>(clock64()); }
__device__ inline Moment moment_now() { return {ptx::globaltimer(), static_cast<u64>(clock64())}; }

// The functions below note where `condition` holds, by predicates and not by a branch of C++:
// behind that the compiler keeps more of wgmma's descriptors in registers that are not uniform.

// Notes a moment. A claim cleared it, so that the latest one that is noted stays.
__device__ inline void note(Moment& gMoment, bool condition) {
  const Moment moment = moment_now();
  ptx::red_max_u64_if(condition, gMoment.nanoseconds, moment.nanoseconds);
  ptx::red_max_u64_if(condition, gMoment.cycles, moment.cycles);
}

// `block` has taken an item.
__device__ inline void note_claim(TimelineItem& gItem, u32 block) {
  atomicAdd(&gItem.times, 1u);
  gItem.multiprocessor = ptx::smid();
  gItem.block = block;
  gItem.first_k = {0, 0};
  gItem.first_product = {0, 0};
  gItem.last_store = {0, 0};
  gItem.claimed = moment_now();
}

// An item has been described, from the cycle `begin` on, and others are about to know.
__device__ inline void note_description(TimelineItem& gItem, u32 begin) {
  gItem.describe_cycles = cycles_now() - begin;
  gItem.published = moment_now();
}

// SharedTimeline is what a block's roles know of the timeline, in shared memory behind all else.
struct SharedTimeline {
  TimelineItem* gItems;        // of all work items, cleared before the first launch
  u32 items[kWorkTileStages];  // whose work tiles the stages of their ring hold
};

// Timeline is a role's view of it, in the forward.
class Timeline {
 public:
  template <ForwardConfig kConfig>
  __device__ explicit Timeline(const ForwardMemory<kConfig>& memory)
      : shared_(
            *reinterpret_cast<SharedTimeline*>(memory.memory + forward_tiles(kConfig).bytes())) {}

  // One thread calls it, before __syncthreads(): a block's first item is its own.
  __device__ void begin(const TimelinePointer& timeline) const {
    shared_.gItems = timeline.gItems;
    claim(blockIdx.x);
  }
  __device__ void claim(u32 item) const { note_claim(shared_.gItems[item], blockIdx.x); }
  // The scheduler has described an item, which it began at `begin`, and is about to say so.
  __device__ void publish(i32 stage, u32 item, u32 begin) const {
    shared_.items[stage] = item;
    note_description(shared_.gItems[item], begin);
  }
  // The loader has issued the copy of the item's first K.
  __device__ void start_keys(i32 stage, bool condition) const {
    note(item_of(stage).first_k, condition);
  }
  // One thread of consumer 0 notes it, which starts the item's first product next.
  __device__ void start_product(i32 stage, bool condition) const {
    note(item_of(stage).first_product, condition);
  }
  // One thread of each warp notes it, which has issued its stores; the last of them stays.
  __device__ void store(i32 stage, bool condition) const {
    note(item_of(stage).last_store, condition);
  }

 private:
  __device__ TimelineItem& item_of(i32 stage) const { return shared_.gItems[shared_.items[stage]]; }

  SharedTimeline& shared_;
};

// BackwardTimeline is the same in the backward, where a block has one item. The block that is noted
// is its place: the multiprocessor, which has one block at a time.
class BackwardTimeline {
 public:
  template <BackwardConfig kConfig>
  __device__ explicit BackwardTimeline(const BackwardMemory<kConfig>& memory)
      : gItem_(*reinterpret_cast<TimelineItem**>(memory.memory + backward_tiles(kConfig).bytes())) {
  }

  // One thread calls it, which knows the item, before __syncthreads().
  __device__ void begin(const TimelinePointer& timeline, u32 item) const {
    gItem_ = timeline.gItems + item;
    note_claim(*gItem_, ptx::smid());
  }
  __device__ void publish(u32 begin) const { note_description(*gItem_, begin); }
  __device__ void start_keys() const { note(gItem_->first_k, true); }
  // One thread of consumer 0 notes it, which starts the item's first product next.
  __device__ void start_product(bool condition) const { note(gItem_->first_product, condition); }
  // One thread of each warp notes it, which has issued its stores; the last of them stays.
  __device__ void store(bool condition) const { note(gItem_->last_store, condition); }

 private:
  TimelineItem*& gItem_;  // in shared memory, behind all else
};

}  // namespace attnlab::v3

#endif
