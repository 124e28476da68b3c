#include "kernels/v3/cuda_traffic.h"

#include <cstddef>
#include <vector>

namespace attnlab::v3 {
namespace {

// The maps of the bulk copies see a batch entry so.
struct Entry {
  Mask mask;
  i64 rows_behind = 0;  // of the tensors q and o, from the entry's first row on
  i64 keys_behind = 0;  // of k and v, from its first key on
};

std::vector<Entry> entries_of(const Problem& problem, const BlockPattern& blocks) {
  std::vector<Entry> entries;
  for (i64 b = 0; b < problem.batch; ++b) {
    entries.push_back({.mask = make_mask(problem, b, blocks),
                       .rows_behind = problem.seqlen_q,
                       .keys_behind = problem.seqlen_k});
  }
  if (problem.layout != Layout::packed) return entries;
  i64 rows = 0, keys = 0;
  for (std::size_t b = entries.size(); b-- > 0;) {  // entries lie one behind the other
    rows += problem.queries(static_cast<i64>(b));
    keys += problem.keys(static_cast<i64>(b));
    entries[b].rows_behind = rows;
    entries[b].keys_behind = keys;
  }
  return entries;
}

// Adds up the work items of one head.
class ItemCounter {
 public:
  ItemCounter(const Problem& problem, const ForwardConfig& config)
      : config_(config),
        has_pattern_(problem.has_pattern()),
        row_bytes_(problem.head_dim * size_bytes(problem.dtype)) {}

  void add_item(const Entry& entry, i64 m_block) {
    const Range rows = tile_range(m_block, config_.block_m(), entry.mask.seqlen_q);
    if (rows.empty()) return;
    const i64 tiles_before = computed_tiles();
    const Range seen = n_block_range(entry.mask, rows, config_.block_n);
    const Range full = full_n_block_range(entry.mask, rows, config_.block_n);
    for (i64 n_block = seen.begin; n_block < seen.end; ++n_block) {
      const bool is_full = full.begin <= n_block && n_block < full.end;
      add_tile(entry, n_block,
               has_pattern_ ? class_of(entry.mask, rows, n_block)
                            : (is_full ? TileClass::full : TileClass::partial));
    }
    const i64 computed = computed_tiles() - tiles_before;
    traffic_.tiles.empty += ceil_div<i64>(entry.mask.seqlen_k, config_.block_n) - computed;
    if (computed > 0) {
      const i64 there = entry.rows_behind - m_block * config_.block_m();
      traffic_[Operand::q].read_bytes += min<i64>(config_.block_m(), there) * row_bytes_;
    }
    traffic_[Operand::o].write_bytes += rows.size() * row_bytes_;
    traffic_[Operand::lse].write_bytes += rows.size() * i64{sizeof(float)};
  }

  const Traffic& traffic() const { return traffic_; }

 private:
  i64 computed_tiles() const { return traffic_.tiles.partial + traffic_.tiles.full; }

  TileClass class_of(const Mask& mask, Range rows, i64 n_block) const {
    return classify(mask, rows, {n_block * config_.block_n, (n_block + 1) * config_.block_n});
  }

  void add_tile(const Entry& entry, i64 n_block, TileClass tile) {
    if (tile == TileClass::empty) return;
    ++(tile == TileClass::full ? traffic_.tiles.full : traffic_.tiles.partial);
    const i64 there = entry.keys_behind - n_block * config_.block_n;
    const i64 bytes = min<i64>(config_.block_n, there) * row_bytes_;
    traffic_[Operand::k].read_bytes += bytes;
    traffic_[Operand::v].read_bytes += bytes;
    // S = Q K^T and O += P V, two FLOPs for each product.
    traffic_.executed_flops += i64{4} * config_.block_m() * config_.block_n * config_.head_dim;
  }

  const ForwardConfig& config_;
  bool has_pattern_;
  i64 row_bytes_;
  Traffic traffic_;
};

}  // namespace

Traffic forward_traffic(const Problem& problem, const ForwardConfig& config) {
  const std::vector<u8> pattern = make_block_pattern(problem);
  ItemCounter counter(problem, config);
  for (const Entry& entry : entries_of(problem, view_block_pattern(problem, pattern.data()))) {
    const i64 m_blocks = ceil_div<i64>(problem.seqlen_q, config.block_m());
    for (i64 m_block = 0; m_block < m_blocks; ++m_block) counter.add_item(entry, m_block);
  }
  Traffic all = counter.traffic();
  return all *= problem.num_heads_q;
}

}  // namespace attnlab::v3
