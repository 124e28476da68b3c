#include "kernels/v3/cuda_traffic.h"

#include <cstddef>
#include <vector>

#include "kernels/shared/quantise.h"

namespace attnlab::v3 {
namespace {

// Entry is a batch entry as the maps of the bulk copies see it.
struct Entry {
  Mask mask;
  i64 rows_behind = 0;             // of the tensors q and o, from the entry's first row on
  i64 keys_behind = 0;             // of k and v, from its first key on
  i64 transposed_keys_behind = 0;  // of V^T, which has padding, from its first key on
};

std::vector<Entry> entries_of(const Problem& problem, const BlockPattern& blocks) {
  std::vector<Entry> entries;
  for (i64 b = 0; b < problem.batch; ++b) {
    entries.push_back({.mask = make_mask(problem, b, blocks),
                       .rows_behind = problem.seqlen_q,
                       .keys_behind = problem.seqlen_k,
                       .transposed_keys_behind = round_up(problem.seqlen_k, kScaleRows)});
  }
  if (problem.layout != Layout::packed) return entries;
  i64 rows = 0, keys = 0;
  for (std::size_t b = entries.size(); b-- > 0;) {  // entries lie one behind the other
    rows += problem.queries(static_cast<i64>(b));
    keys += problem.keys(static_cast<i64>(b));
    entries[b].rows_behind = rows;
    entries[b].keys_behind = keys;
  }
  const i64 all = keys;
  for (std::size_t b = 0; b < entries.size(); ++b) {
    const auto place = static_cast<i64>(b);
    entries[b].transposed_keys_behind = first_transposed_key(all, problem.batch) -
                                        first_transposed_key(all - entries[b].keys_behind, place);
  }
  return entries;
}

// Adds up the work items of one head. The scales of e4m3, 8 bytes a tile, are left out.
class ForwardCounter {
 public:
  ForwardCounter(const Problem& problem, const ForwardConfig& config)
      : config_(config),
        has_pattern_(problem.has_pattern()),
        row_bytes_(problem.head_dim * size_bytes(problem.dtype)),
        o_row_bytes_(problem.head_dim * size_bytes(problem.output_dtype())) {}

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
    traffic_.executed_flops -= unseen_by_consumers(entry.mask, rows, seen) * flops_of(64);
    traffic_.tiles.empty += ceil_div<i64>(entry.mask.seqlen_k, config_.block_n) - computed;
    if (computed > 0) {
      const i64 there = entry.rows_behind - m_block * config_.block_m();
      traffic_[Operand::q].read_bytes += min<i64>(config_.block_m(), there) * row_bytes_;
    }
    traffic_[Operand::o].write_bytes += rows.size() * o_row_bytes_;
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
    const i64 v_there = entry.transposed_keys_behind - n_block * config_.block_n;
    traffic_[Operand::v].read_bytes +=
        config_.e4m3 ? min<i64>(config_.block_n, v_there) * row_bytes_ : bytes;
    traffic_.executed_flops += flops_of(config_.block_m());
  }

  // Returns the FLOPs of S = Q K^T and O += P V for so many rows and a tile of keys.
  i64 flops_of(i64 rows) const { return 4 * rows * config_.block_n * config_.head_dim; }

  // Returns how many tiles the item's consumers pass over, all together.
  i64 unseen_by_consumers(const Mask& mask, Range rows, Range seen) const {
    i64 unseen = 0;
    for (i32 consumer = 0; !seen.empty() && consumer < config_.consumers; ++consumer) {
      unseen +=
          unseen_tiles(config_, consumer, band_end(mask, rows.begin), static_cast<i32>(rows.size()),
                       static_cast<i32>(seen.begin), static_cast<i32>(seen.end));
    }
    return unseen;
  }

  const ForwardConfig& config_;
  bool has_pattern_;
  i64 row_bytes_;
  i64 o_row_bytes_;
  Traffic traffic_;
};

// Adds up the work items of one K/V head, and the tiles of rows of the query heads that share it.
class BackwardCounter {
 public:
  BackwardCounter(const Problem& problem, const BackwardConfig& config)
      : config_(config),
        has_pattern_(problem.has_pattern()),
        heads_(problem.num_heads_q / problem.num_heads_kv),
        row_bytes_(problem.head_dim * size_bytes(problem.dtype)) {}

  // Adds prepare_rows and finish_rows for a tile of rows of each head.
  void add_rows(const Entry& entry, i64 m_block) {
    const Range rows = tile_range(m_block, config_.block_m, entry.mask.seqlen_q);
    if (rows.empty()) return;
    const i64 bytes = heads_ * rows.size() * row_bytes_;
    traffic_[Operand::o].read_bytes += bytes;
    traffic_[Operand::dout].read_bytes += bytes;
    traffic_[Operand::lse].read_bytes += heads_ * rows.size() * i64{sizeof(float)};
    traffic_[Operand::delta].write_bytes += 2 * heads_ * statistic_bytes();
    traffic_[Operand::dq].write_bytes += heads_ * config_.dq_bytes() + bytes;
    traffic_[Operand::dq].read_bytes += heads_ * config_.dq_bytes();
  }

  void add_item(const Entry& entry, i64 n_block) {
    const Range keys = tile_range(n_block, config_.block_n, entry.mask.seqlen_k);
    if (keys.empty()) return;
    const bool all_exist = (n_block + 1) * config_.block_n <= entry.mask.valid_k;
    const Range seen = m_block_range(entry.mask, keys, config_.block_m);
    const Range full = all_exist ? full_m_block_range(entry.mask, keys, config_.block_m) : Range{};
    i64 computed = 0;
    for (i64 m_block = seen.begin; m_block < seen.end; ++m_block) {
      const bool is_full = full.begin <= m_block && m_block < full.end;
      const TileClass tile = has_pattern_ ? class_of(entry.mask, n_block, m_block)
                                          : (is_full ? TileClass::full : TileClass::partial);
      if (tile == TileClass::empty) continue;
      ++computed;
      add_tile(entry, m_block, tile);
    }
    const i64 m_blocks = ceil_div<i64>(entry.mask.seqlen_q, config_.block_m);
    traffic_.tiles.empty += heads_ * (m_blocks - computed);
    if (computed > 0) {
      const i64 there = min<i64>(config_.block_n, entry.keys_behind - n_block * config_.block_n);
      traffic_[Operand::k].read_bytes += there * row_bytes_;
      traffic_[Operand::v].read_bytes += there * row_bytes_;
    }
    traffic_[Operand::dk].write_bytes += keys.size() * row_bytes_;
    traffic_[Operand::dv].write_bytes += keys.size() * row_bytes_;
  }

  const Traffic& traffic() const { return traffic_; }

 private:
  i64 statistic_bytes() const { return config_.block_m * i64{sizeof(float)}; }

  TileClass class_of(const Mask& mask, i64 n_block, i64 m_block) const {
    return classify(mask, tile_range(m_block, config_.block_m, mask.seqlen_q),
                    {n_block * config_.block_n, (n_block + 1) * config_.block_n});
  }

  void add_tile(const Entry& entry, i64 m_block, TileClass tile) {
    (tile == TileClass::full ? traffic_.tiles.full : traffic_.tiles.partial) += heads_;
    const i64 there = min<i64>(config_.block_m, entry.rows_behind - m_block * config_.block_m);
    traffic_[Operand::q].read_bytes += heads_ * there * row_bytes_;
    traffic_[Operand::dout].read_bytes += heads_ * there * row_bytes_;
    traffic_[Operand::lse].read_bytes += heads_ * statistic_bytes();
    traffic_[Operand::delta].read_bytes += heads_ * statistic_bytes();
    traffic_[Operand::dq].write_bytes += heads_ * config_.dq_bytes();
    traffic_.executed_flops +=
        heads_ * kBackwardProducts * 2 * config_.block_m * config_.block_n * config_.head_dim;
  }

  const BackwardConfig& config_;
  bool has_pattern_;
  i64 heads_;  // query heads
  i64 row_bytes_;
  Traffic traffic_;
};

}  // namespace

Traffic forward_traffic(const Problem& problem, const ForwardConfig& config) {
  const std::vector<u8> pattern = make_block_pattern(problem);
  ForwardCounter counter(problem, config);
  for (const Entry& entry : entries_of(problem, view_block_pattern(problem, pattern.data()))) {
    const i64 m_blocks = ceil_div<i64>(problem.seqlen_q, config.block_m());
    for (i64 m_block = 0; m_block < m_blocks; ++m_block) counter.add_item(entry, m_block);
  }
  Traffic all = counter.traffic();
  return all *= problem.num_heads_q;
}

Traffic backward_traffic(const Problem& problem, const BackwardConfig& config) {
  const std::vector<u8> pattern = make_block_pattern(problem);
  BackwardCounter counter(problem, config);
  for (const Entry& entry : entries_of(problem, view_block_pattern(problem, pattern.data()))) {
    const i64 m_blocks = ceil_div<i64>(problem.seqlen_q, config.block_m);
    const i64 n_blocks = ceil_div<i64>(problem.seqlen_k, config.block_n);
    for (i64 m_block = 0; m_block < m_blocks; ++m_block) counter.add_rows(entry, m_block);
    for (i64 n_block = 0; n_block < n_blocks; ++n_block) counter.add_item(entry, n_block);
  }
  Traffic all = counter.traffic();
  return all *= problem.num_heads_kv;
}

}  // namespace attnlab::v3
