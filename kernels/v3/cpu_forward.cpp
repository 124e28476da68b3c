// Implements v3's forward on the CPU. The mathematics is v2's; what changes is who does what, and
// when. In v2 one thread of control loads, multiplies and exponentiates one after the other. Here
// these are roles of one work item that meet only at barriers:
//
//   producer     runs ahead as far as the rings of K and V stages let it: a load waits for nothing
//                but a free stage
//   consumers    two, each with a tile of query rows of its own, on one stream of K and V: half of
//                v2's reads of K and V for the same block_m
//   ping-pong    one consumer issues its products while the other exponentiates
//   two S tiles  the next tile's Q K^T is issued before this tile's probabilities are used, so that
//                products and exponentials can overlap inside one consumer as well
//
// On Hopper the producer is a warpgroup of which one thread issues TMA copies that complete the
// "full" mbarriers; a consumer is a warpgroup of 64 rows, multiply() a group of wgmma, settle() the
// wait for wgmma under way, arrive_empty() the arrival of one elected thread, and the order barrier
// is two named barriers. Here the roles are coroutines under a seeded scheduler: the same waits and
// arrivals in the same order, in any interleaving that the barriers allow. Two cores have nothing
// to gain from the overlap itself; what they gain is the shared stream of K and V.
//
// Tiles are kept transposed (keys x query rows, head_dim x query rows), as in v2.
#include "kernels/v3/cpu_passes.h"

namespace attnlab::v3 {

using cpu::Accumulate;
using cpu::Executor;
using cpu::Role;
using cpu::settle;
using cpu::Tile;

ForwardMemory carve_forward(cpu::TileCarver& carver, const Work& work) {
  const auto [block_m, block_n] = work.tiling;
  const i64 head_dim = work.shape.head_dim;
  ForwardMemory fast;
  fast.sQ = carver.tile(kConsumers * block_m, head_dim);
  fast.sK = carve_stages(carver, work.stages, block_n, head_dim);
  fast.sV = carve_stages(carver, work.stages, block_n, head_dim);
  for (ForwardMemory::Consumer& own : fast.consumers) {
    own = {.sQt = carver.tile(head_dim, block_m),
           .sSt = {carver.tile(block_n, block_m), carver.tile(block_n, block_m)},
           .sOt = carver.tile(head_dim, block_m),
           .sMax = carver.tile(1, block_m),
           .sSum = carver.tile(1, block_m),
           .sRescale = carver.tile(1, block_m)};
  }
  return fast;
}

namespace {

// Item is one work item: what its roles share.
struct Item {
  Item(const Work& shared_work, const cpu::SliceTensors& tensors, i64 pair,
       const ForwardMemory& memory, Executor& worker, const cpu::Probe& probe)
      : work(shared_work),
        mask(tensors.mask()),
        slice(tensors),
        m_pair(pair),
        rows(tile_range(pair, kConsumers * work.tiling.block_m, mask.seqlen_q)),
        tiles(mask, rows, work.tiling.block_n),
        fast(memory),
        executor(worker),
        q_ring({.name = "Q", .stages = 1, .readers = kConsumers}, probe),
        k_ring({.name = "K", .stages = work.stages, .readers = kConsumers}, probe),
        v_ring({.name = "V", .stages = work.stages, .readers = kConsumers}, probe) {}

  Range keys(i64 n_block) const { return tile_range(n_block, work.tiling.block_n, mask.valid_k); }

  const Work& work;
  const Mask& mask;
  const cpu::SliceTensors& slice;
  i64 m_pair;
  Range rows;  // of both consumers
  KeyTiles tiles;
  const ForwardMemory& fast;
  Executor& executor;
  cpu::Ring q_ring, k_ring, v_ring;
  cpu::OrderBarrier order;
};

// K is needed one tile ahead of V: K(last), Q, then each K with the V of the tile before it.
Role produce(Item& item) {
  Executor& executor = item.executor;
  cpu::RingWriter q(item.q_ring), k(item.k_ring), v(item.v_ring);
  i64 n = item.tiles.last();
  if (n < 0) co_return;  // rows that see nothing

  const i32 first = co_await k.empty();
  executor.load(item.slice.k(item.keys(n)), at(item.fast.sK, first));
  co_await settle();
  k.arrive_full();

  co_await q.empty();
  executor.load(item.slice.q(item.rows), item.fast.sQ);
  co_await settle();
  q.arrive_full();

  for (i64 next = item.tiles.before(n); next >= 0; next = item.tiles.before(n)) {
    const i32 k_stage = co_await k.empty();
    executor.load(item.slice.k(item.keys(next)), at(item.fast.sK, k_stage));
    co_await settle();
    k.arrive_full();

    const i32 v_stage = co_await v.empty();
    executor.load(item.slice.v(item.keys(n)), at(item.fast.sV, v_stage));
    co_await settle();
    v.arrive_full();
    n = next;
  }

  const i32 last = co_await v.empty();
  executor.load(item.slice.v(item.keys(n)), at(item.fast.sV, last));
  co_await settle();
  v.arrive_full();
}

// RowTile does the arithmetic of one consumer on its tile of query rows.
class RowTile {
 public:
  // Scores is a tile of S^T, later P^T; nothing happens to one that is empty.
  struct Scores {
    cpu::ScoreTile at;  // (keys, rows)
    TileClass tile_class = TileClass::empty;
  };

  RowTile(const Item& item, i32 consumer)
      : item_(item),
        executor_(item.executor),
        own_(item.fast.consumers[static_cast<std::size_t>(consumer)]),
        state_{.max = own_.sMax.data, .sum = own_.sSum.data, .rescale = own_.sRescale.data},
        rows_(tile_range(tile_of_pair(item.m_pair, consumer), item.work.tiling.block_m,
                         item.mask.seqlen_q)),
        q_tile_(part_of_pair(item.fast.sQ, consumer, item.work.tiling.block_m)) {
    executor_.fill(own_.sMax, -kInfinity);
    executor_.fill(own_.sSum, 0.0f);
    executor_.fill(own_.sOt, 0.0f);
  }

  void take_q() { executor_.transpose(q_tile_, own_.sQt); }

  // Computes S^T = K Q^T, hidden where the mask says so, in the S tile that was not used last.
  Scores scores(i64 n_block, const Tile& sK) {
    const Range keys = item_.keys(n_block);
    const i64 block_n = item_.work.tiling.block_n;
    const Scores s = {
        .at = {.tile = own_.sSt[static_cast<std::size_t>(next_++ % 2)].top(keys.size()),
               .rows = rows_,
               .keys = keys,
               .orientation = cpu::Orientation::keys_by_rows},
        .tile_class = classify(item_.mask, rows_, {n_block * block_n, (n_block + 1) * block_n})};
    if (s.tile_class == TileClass::empty) return s;  // seen by the other consumer only
    ++visited_;
    executor_.visit(s.tile_class, item_.work.tiling, item_.work.shape.head_dim, kForwardProducts);
    executor_.multiply(sK.top(keys.size()), own_.sQt, s.at.tile);
    return s;
  }

  // Computes P^T = exp(S^T - max), row sums, and the factor that brings O to the new maximum.
  void softmax(const Scores& s) {
    if (s.tile_class == TileClass::empty) return;
    const Work& work = item_.work;
    if (s.tile_class == TileClass::partial) executor_.hide(item_.mask, s.at);
    executor_.softmax_step(s.at.tile, work.shape.softmax_scale_log2, state_);
    if (work.dropout.threshold > 0) executor_.drop(work.dropout, item_.slice.index(), s.at);
    executor_.round(s.at.tile, work.problem.dtype);
  }

  // Computes O^T = O^T * rescale + V^T P^T. The factor is that of P's own softmax step: it has to
  // wait for this product, because the products of the tiles before are in flight until here.
  void product(const Scores& p, const Tile& sV) {
    if (p.tile_class == TileClass::empty) return;
    executor_.multiply(transposed(sV.top(p.at.keys.size())), p.at.tile, own_.sOt,
                       Accumulate::rescaled, own_.sRescale.data);
  }

  // Stores O^T / sum and lse to HBM through the tile in which Q came.
  void finish() {
    if (rows_.empty()) return;  // the pair reaches past the end of the sequence
    executor_.skip(item_.work.tiling.n_blocks(item_.mask.seqlen_k) - visited_);
    item_.work.saved.store(item_.slice, rows_, state_, item_.work.shape);
    const Tile accumulator = own_.sOt.left(rows_.size());
    executor_.finish_rows(accumulator, state_, item_.work.shape, item_.work.dropout.keep_scale);
    executor_.transpose(accumulator, q_tile_);
    executor_.store(q_tile_, item_.slice.o(rows_));
    executor_.store(own_.sMax, item_.slice.lse(rows_));
  }

 private:
  const Item& item_;
  Executor& executor_;
  const ForwardMemory::Consumer& own_;
  cpu::RowState state_;
  Range rows_;
  Tile q_tile_;  // this consumer's half
  i32 next_ = 0;
  i64 visited_ = 0;
};

Role consume(Item& item, i32 consumer) {
  RowTile tile(item, consumer);
  cpu::RingReader q(item.q_ring, consumer), k(item.k_ring, consumer), v(item.v_ring, consumer);
  i64 n = item.tiles.last();
  if (n < 0) {
    tile.finish();  // O = 0, lse = -inf
    co_return;
  }

  co_await q.full();
  tile.take_q();
  q.arrive_empty();
  const i32 first = co_await k.full();
  RowTile::Scores p = tile.scores(n, at(item.fast.sK, first));  // S = Q K^T
  co_await settle();
  k.arrive_empty();
  tile.softmax(p);

  for (n = item.tiles.before(n); n >= 0; n = item.tiles.before(n)) {
    const i32 k_stage = co_await k.full();
    co_await item.order.wait(consumer);
    const RowTile::Scores s = tile.scores(n, at(item.fast.sK, k_stage));  // S' = Q K'^T
    const i32 v_stage = co_await v.full();
    tile.product(p, at(item.fast.sV, v_stage));  // O += P V
    item.order.arrive(consumer);
    co_await settle();  // S' is there, O may be under way
    k.arrive_empty();
    tile.softmax(s);
    co_await settle();  // O is there
    v.arrive_empty();
    p = s;
  }

  const i32 last = co_await v.full();
  tile.product(p, at(item.fast.sV, last));
  co_await settle();
  v.arrive_empty();
  tile.finish();
}

}  // namespace

void forward(const Work& work, const cpu::SliceTensors& slice, i64 m_pair,
             const ForwardMemory& fast, Executor& executor, const cpu::Probe& probe) {
  Item item(work, slice, m_pair, fast, executor, probe);
  if (item.rows.empty()) return;  // a packed entry shorter than the longest
  cpu::NamedRole roles[] = {{"the producer", produce(item)},
                            {"consumer 0", consume(item, 0)},
                            {"consumer 1", consume(item, 1)}};
  const u64 place =
      static_cast<u64>(slice.index() * work.tiling.m_blocks(item.mask.seqlen_q) + m_pair);
  cpu::run_roles(roles, {.seed = work.schedule_seed, .item = place}, probe);
  for (const cpu::Ring* ring : {&item.q_ring, &item.k_ring, &item.v_ring}) ring->expect_drained();
}

}  // namespace attnlab::v3
