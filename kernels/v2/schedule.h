// v2: FlashAttention-2's work partitioning. One work item is one tile of query rows of one (batch,
// head) slice; it passes over the key tiles it sees and writes its rows of O and lse once. Source:
// Dao, FlashAttention-2 (2023), Algorithm 1 and section 3.2.
#pragma once

#include "kernels/shared/layout.h"

namespace attnlab::v2 {

struct Schedule {
  Tiling tiling;
  i64 batch = 1;
  i64 num_heads_q = 1;
  i64 seqlen_q = 0;
  // Under a causal mask the last query tiles see the most keys: they go first, so that the light
  // ones fill the gaps at the end.
  bool heavy_last_rows = false;
};

struct WorkItem {
  i64 batch = 0;
  i64 head = 0;
  i64 m_block = 0;
};

ATTNLAB_HD constexpr i64 m_blocks(const Schedule& schedule) {
  return schedule.tiling.m_blocks(schedule.seqlen_q);
}

ATTNLAB_HD constexpr i64 work_items(const Schedule& schedule) {
  return schedule.batch * schedule.num_heads_q * m_blocks(schedule);
}

// Items of one slice follow one another: they share its K and V in the caches.
ATTNLAB_HD constexpr WorkItem work_item(const Schedule& schedule, i64 index) {
  const i64 blocks = m_blocks(schedule);
  const i64 slice = index / blocks;
  const i64 place = index % blocks;
  return {.batch = slice / schedule.num_heads_q,
          .head = slice % schedule.num_heads_q,
          .m_block = schedule.heavy_last_rows ? blocks - 1 - place : place};
}

}  // namespace attnlab::v2
