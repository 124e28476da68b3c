// Implements v3's backward on the CPU. Like v2, a work item owns keys and passes over the query
// tiles that see them; what changes is the division of labour:
//
//   producer    streams Q with lse, and dO with delta, through two rings; K and V stay resident
//   consumers   two, each with a tile of keys and its dK and dV in registers, on one stream of
//               Q and dO: half of v2's reads of them for the same block_n
//   dQ writer   a role of its own adds finished dQ tiles to the fp32 sums in HBM, so that consumers
//               do not wait for memory. Both consumers, one after the other, form one dQ tile,
//               dS_0 K_0 + dS_1 K_1, which halves what v2 adds to HBM and fixes the order inside an
//               item
//
// On Hopper the writer is a spare warp of the producer's warpgroup that issues bulk reductions;
// FlashAttention-3 exchanges dS between the consumers and forms dQ in one product over the keys of
// both, which is this sum.
//
// Tiles are (query rows x keys), as in v2.
#include "kernels/v3/cpu_passes.h"

namespace attnlab::v3 {

using cpu::Accumulate;
using cpu::Executor;
using cpu::Role;
using cpu::settle;
using cpu::Tile;

BackwardMemory carve_backward(cpu::TileCarver& carver, const Work& work) {
  const auto [block_m, block_n] = work.tiling;
  const i64 head_dim = work.shape.head_dim;
  BackwardMemory fast;
  fast.sK = carver.tile(kConsumers * block_n, head_dim);
  fast.sV = carver.tile(kConsumers * block_n, head_dim);
  fast.sQ = carve_stages(carver, work.stages, block_m, head_dim);
  fast.sMax = carve_stages(carver, work.stages, 1, block_m);
  fast.sSum = carve_stages(carver, work.stages, 1, block_m);
  fast.sDO = carve_stages(carver, work.stages, block_m, head_dim);
  fast.sDelta = carve_stages(carver, work.stages, 1, block_m);
  fast.sDQ = carve_stages(carver, work.stages, block_m, head_dim);
  for (BackwardMemory::Consumer& own : fast.consumers) {
    own = {.sKt = carver.tile(head_dim, block_n),
           .sVt = carver.tile(head_dim, block_n),
           .sP = carver.tile(block_m, block_n),
           .sDS = carver.tile(block_m, block_n),
           .sDK = carver.tile(block_n, head_dim),
           .sDV = carver.tile(block_n, head_dim)};
  }
  return fast;
}

cpu::DqSums::RowTiles row_tiles(const BackwardMemory& fast) {
  return {.sO = at(fast.sQ, 0),
          .sDO = at(fast.sDO, 0),
          .sDQ = at(fast.sDQ, 0),
          .sDelta = at(fast.sDelta, 0)};
}

namespace {

// Item is one work item: what its roles share.
struct Item {
  Item(const Work& shared_work, cpu::DqSums& sums, std::span<const cpu::SliceTensors> slices,
       i64 pair, const BackwardMemory& memory, Executor& worker, const cpu::Probe& probe)
      : work(shared_work),
        dq_sums(sums),
        mask(slices.front().mask()),
        group(slices),
        n_pair(pair),
        keys(tile_range(pair, kConsumers * work.tiling.block_n, mask.valid_k)),
        heads(static_cast<i64>(slices.size())),
        tiles(mask, keys, work.tiling.block_m, heads),
        fast(memory),
        executor(worker),
        kv_ring({.name = "KV", .stages = 1, .readers = kConsumers}, probe),
        q_ring({.name = "Q", .stages = work.stages, .readers = kConsumers}, probe),
        do_ring({.name = "dO", .stages = work.stages, .readers = kConsumers}, probe),
        dq_ring({.name = "dQ", .stages = work.stages, .writers = kConsumers}, probe) {}

  const cpu::SliceTensors& slice(QueryTile at) const {
    return group[static_cast<std::size_t>(at.head)];
  }
  Range rows(QueryTile at) const {
    return tile_range(at.m_block, work.tiling.block_m, mask.seqlen_q);
  }
  TileClass tile_class(QueryTile at, i32 consumer) const {
    const i64 block_n = work.tiling.block_n, n_block = tile_of_pair(n_pair, consumer);
    return classify(mask, rows(at), {n_block * block_n, (n_block + 1) * block_n});
  }

  const Work& work;
  cpu::DqSums& dq_sums;
  const Mask& mask;
  std::span<const cpu::SliceTensors> group;  // the query heads that share the K/V head
  i64 n_pair;
  Range keys;  // of both consumers, those that exist
  i64 heads;   // of the group
  QueryTiles tiles;
  const BackwardMemory& fast;
  Executor& executor;
  cpu::Ring kv_ring, q_ring, do_ring, dq_ring;
  cpu::OrderBarrier order;
};

Role produce(Item& item) {
  Executor& executor = item.executor;
  const BackwardMemory& fast = item.fast;
  cpu::RingWriter kv(item.kv_ring), q(item.q_ring), dO(item.do_ring);
  QueryTile tile = item.tiles.first();
  if (item.tiles.ended(tile)) co_return;  // keys that nobody sees

  co_await kv.empty();
  executor.load(item.group.front().k(item.keys), fast.sK);
  executor.load(item.group.front().v(item.keys), fast.sV);
  co_await settle();
  kv.arrive_full();

  for (; !item.tiles.ended(tile); tile = item.tiles.after(tile)) {
    const cpu::SliceTensors& slice = item.slice(tile);
    const Range rows = item.rows(tile);

    const i32 q_stage = co_await q.empty();
    executor.load(slice.q(rows), at(fast.sQ, q_stage));
    item.work.saved.load(slice, rows, at(fast.sMax, q_stage), at(fast.sSum, q_stage), executor);
    co_await settle();
    q.arrive_full();

    const i32 do_stage = co_await dO.empty();
    executor.load(slice.dout(rows), at(fast.sDO, do_stage));
    executor.load(item.dq_sums.delta(slice, rows), at(fast.sDelta, do_stage));
    co_await settle();
    dO.arrive_full();
  }
}

// KeyTile does the arithmetic of one consumer on its tile of keys.
class KeyTile {
 public:
  // Scores is what the consumer has of the query tile at hand: S, then P, and dP, then dS. Nothing
  // happens to a tile that is empty.
  struct Scores {
    cpu::ScoreTile p;  // (rows, keys)
    Tile dS;           // (rows, keys)
    TileClass tile_class = TileClass::empty;
    i64 slice = 0;
  };

  KeyTile(const Item& item, i32 consumer)
      : item_(item),
        executor_(item.executor),
        consumer_(consumer),
        own_(item.fast.consumers[static_cast<std::size_t>(consumer)]),
        tile_keys_(tile_range(tile_of_pair(item.n_pair, consumer), item.work.tiling.block_n,
                              item.mask.seqlen_k)),
        keys_(intersect(tile_keys_, {0, item.mask.valid_k})),
        k_tile_(part_of_pair(item.fast.sK, consumer, item.work.tiling.block_n)) {
    executor_.fill(own_.sDK, 0.0f);
    executor_.fill(own_.sDV, 0.0f);
  }

  void take_k_and_v() {
    executor_.transpose(k_tile_, own_.sKt);
    executor_.transpose(part_of_pair(item_.fast.sV, consumer_, item_.work.tiling.block_n),
                        own_.sVt);
  }

  // Computes S = Q K^T.
  Scores scores(QueryTile tile, const Tile& sQ) {
    const Range rows = item_.rows(tile);
    const Scores s = {
        .p = {.tile = own_.sP.top(rows.size()).left(keys_.size()), .rows = rows, .keys = keys_},
        .dS = own_.sDS.top(rows.size()).left(keys_.size()),
        .tile_class = item_.tile_class(tile, consumer_),
        .slice = item_.slice(tile).index()};
    if (s.tile_class == TileClass::empty) return s;
    ++visited_;
    executor_.visit(s.tile_class, item_.work.tiling, item_.work.shape.head_dim, kBackwardProducts);
    executor_.multiply(sQ.top(rows.size()), own_.sKt, s.p.tile);
    return s;
  }

  // Computes dP = dO V^T.
  void gradient_of_p(const Scores& s, const Tile& sDO) {
    if (s.tile_class == TileClass::empty) return;
    executor_.multiply(sDO.top(s.p.rows.size()), own_.sVt, s.dS);
  }

  // Computes P = exp(S - max) / sum, dS = P (Z dP - delta), both rounded for the products to come.
  void softmax_gradient(const Scores& s, const cpu::RowState& state, const Tile& sDelta) {
    if (s.tile_class == TileClass::empty) return;
    const Work& work = item_.work;
    if (s.tile_class == TileClass::partial) executor_.hide(item_.mask, s.p);
    executor_.recompute_p(s.p.tile, work.shape.softmax_scale_log2, state);
    if (work.dropout.threshold > 0) executor_.mark_dropped(work.dropout, s.slice, s.p);
    executor_.score_gradient(s.p.tile, s.dS, sDelta.data, work.dropout.keep_scale);
    if (work.dropout.threshold > 0) executor_.clear_dropped(s.p.tile);
    executor_.round(s.p.tile, work.problem.dtype);
    executor_.round(s.dS, work.problem.dtype);
  }

  // Adds dV += P^T dO.
  void add_dv(const Scores& s, const Tile& sDO) {
    if (s.tile_class == TileClass::empty) return;
    executor_.multiply(transposed(s.p.tile), sDO.top(s.p.rows.size()), own_.sDV.top(keys_.size()),
                       Accumulate::add);
  }

  // Adds dQ (+)= dS K: the first consumer that sees the tile begins the sum.
  void add_dq(const Scores& s, QueryTile tile, const Tile& sDQ) {
    if (s.tile_class == TileClass::empty) return;
    const bool begins = consumer_ == 0 || item_.tile_class(tile, 0) == TileClass::empty;
    executor_.multiply(s.dS, k_tile_, sDQ.top(s.p.rows.size()),
                       begins ? Accumulate::no : Accumulate::add);
  }

  // Adds dK += dS^T Q.
  void add_dk(const Scores& s, const Tile& sQ) {
    if (s.tile_class == TileClass::empty) return;
    executor_.multiply(transposed(s.dS), sQ.top(s.p.rows.size()), own_.sDK.top(keys_.size()),
                       Accumulate::add);
  }

  // Stores dK and dV to HBM, zeros for keys that do not exist under padding.
  void finish() {
    if (tile_keys_.empty()) return;  // the pair reaches past the end of the sequence
    const i64 m_blocks = item_.work.tiling.m_blocks(item_.mask.seqlen_q);
    executor_.skip(item_.heads * m_blocks - visited_);
    executor_.scale(own_.sDK, item_.work.shape.softmax_scale);
    executor_.scale(own_.sDV, item_.work.dropout.keep_scale);
    executor_.store(own_.sDK, item_.group.front().dk(tile_keys_));
    executor_.store(own_.sDV, item_.group.front().dv(tile_keys_));
  }

 private:
  const Item& item_;
  Executor& executor_;
  i32 consumer_;
  const BackwardMemory::Consumer& own_;
  Range tile_keys_;
  Range keys_;   // those that exist
  Tile k_tile_;  // this consumer's half
  i64 visited_ = 0;
};

Role consume(Item& item, i32 consumer) {
  const BackwardMemory& fast = item.fast;
  KeyTile keys(item, consumer);
  cpu::RingReader kv(item.kv_ring, consumer), q(item.q_ring, consumer), dO(item.do_ring, consumer);
  cpu::RingWriter dQ(item.dq_ring, consumer);
  QueryTile tile = item.tiles.first();
  if (item.tiles.ended(tile)) {
    keys.finish();  // dK = dV = 0
    co_return;
  }

  co_await kv.full();
  keys.take_k_and_v();
  for (; !item.tiles.ended(tile); tile = item.tiles.after(tile)) {
    const i32 q_stage = co_await q.full();
    const KeyTile::Scores s = keys.scores(tile, at(fast.sQ, q_stage));  // S = Q K^T
    const i32 do_stage = co_await dO.full();
    keys.gradient_of_p(s, at(fast.sDO, do_stage));  // dP = dO V^T
    co_await settle();
    keys.softmax_gradient(s,
                          {.max = at(fast.sMax, q_stage).data, .sum = at(fast.sSum, q_stage).data},
                          at(fast.sDelta, do_stage));

    co_await item.order.wait(consumer);
    keys.add_dv(s, at(fast.sDO, do_stage));  // dV += P^T dO
    const i32 dq_stage = co_await dQ.empty();
    keys.add_dq(s, tile, at(fast.sDQ, dq_stage));  // dQ += dS K
    co_await settle();
    dQ.arrive_full();
    item.order.arrive(consumer);
    dO.arrive_empty();
    keys.add_dk(s, at(fast.sQ, q_stage));  // dK += dS^T Q
    co_await settle();
    q.arrive_empty();
  }
  kv.arrive_empty();
  keys.finish();
}

Role write_dq(Item& item) {
  cpu::RingReader dQ(item.dq_ring);
  for (QueryTile tile = item.tiles.first(); !item.tiles.ended(tile);
       tile = item.tiles.after(tile)) {
    const i32 stage = co_await dQ.full();
    item.dq_sums.add(item.slice(tile), tile.m_block, item.n_pair, at(item.fast.sDQ, stage),
                     item.executor);
    co_await settle();
    dQ.arrive_empty();
  }
}

}  // namespace

void backward(const Work& work, cpu::DqSums& dq_sums, std::span<const cpu::SliceTensors> group,
              i64 n_pair, const BackwardMemory& fast, Executor& executor, const cpu::Probe& probe) {
  const Mask& mask = group.front().mask();
  if (tile_range(n_pair, kConsumers * work.tiling.block_n, mask.seqlen_k).empty()) return;
  Item item(work, dq_sums, group, n_pair, fast, executor, probe);
  cpu::NamedRole roles[] = {{"the producer", produce(item)},
                            {"consumer 0", consume(item, 0)},
                            {"consumer 1", consume(item, 1)},
                            {"the dQ writer", write_dq(item)}};
  const u64 place =
      static_cast<u64>(group.front().index() * work.tiling.n_blocks(mask.seqlen_k) + n_pair);
  cpu::run_roles(roles, {.seed = work.schedule_seed, .item = place}, probe);
  for (const cpu::Ring* ring : {&item.kv_ring, &item.q_ring, &item.do_ring, &item.dq_ring}) {
    ring->expect_drained();
  }
}

}  // namespace attnlab::v3
