// Drops in score tiles: Philox (shared/philox.h) in SIMD lanes, each call made once for the eight
// elements that share it (shared/dropout.h), then a line's numbers compared with the threshold.
//
// The lanes run along a line of the tile, over as many 16x16 blocks as it crosses. From one block,
// with row and key taken inside of it, a line needs
//   as query row r: the 4 counters of row r % 8. Words x and z hold the numbers of the first and
//     the last 8 keys of row r % 8, y and w those of row r % 8 + 8; each word holds two keys;
//   as key c: the 8 counters of keys 2j and 2j + 1, c % 8 being one of them. Words x and y hold the
//     first and the last 8 rows of these keys, z and w of keys 2j + 8 and 2j + 9; each word holds
//     one row of two keys.
#include "kernels/cpu/tile_ops_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tile_ops_dropout.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include <cstring>

#include "kernels/cpu/tile_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::cpu::HWY_NAMESPACE {
namespace {

// RoundKeys has the key of each round; it does not depend on the counter.
struct RoundKeys {
  explicit RoundKeys(PhiloxKey key) {
    for (int i = 0; i < kPhiloxRounds; ++i) {
      low[i] = key.low;
      high[i] = key.high;
      key.low += kPhiloxWeyl0;
      key.high += kPhiloxWeyl1;
    }
  }
  u64 low[kPhiloxRounds], high[kPhiloxRounds];
};

// Wide holds one word of a counter in the low 32 bits of each 64-bit lane: a product of two words
// fits, and what is left in the high bits is never looked at.
using Wide = hn::CappedTag<u64, kTileColumns / 2>;
using Word = hn::Vec<Wide>;
struct Counters {
  Word x, y, z, w;
};

HWY_ATTR inline Word word(i64 value) { return hn::Set(Wide(), static_cast<u64>(value)); }

// Returns the 64-bit products of low words.
HWY_ATTR inline Word product(Word a, u32 b) {
#if HWY_TARGET == HWY_SCALAR
  return hn::MulEven(hn::TruncateTo(hn::Rebind<u32, Wide>(), a),
                     hn::Set(hn::Rebind<u32, Wide>(), b));
#else
  const hn::Repartition<u32, Wide> halves;
  return hn::MulEven(hn::BitCast(halves, a), hn::Set(halves, b));
#endif
}

// Does the rounds of shared/philox.h, with its constants.
HWY_ATTR inline Counters philox(Counters c, const RoundKeys& keys) {
  for (int i = 0; i < kPhiloxRounds; ++i) {
    const Word x = product(c.x, kPhiloxMultiplier0), z = product(c.z, kPhiloxMultiplier1);
    c = {.x = hn::Xor3(hn::ShiftRight<32>(z), c.y, hn::Set(Wide(), keys.low[i])),
         .y = z,
         .z = hn::Xor3(hn::ShiftRight<32>(x), c.w, hn::Set(Wide(), keys.high[i])),
         .w = x};
  }
  return c;
}

constexpr i64 kBlock = 16;
constexpr i64 kHalf = kBlock / 2;
constexpr i64 kStrip = 256;  // elements of a line that are drawn at once

// Sharing says how the lines that cross a block share its counters.
template <Orientation>
struct Sharing;
template <>
struct Sharing<Orientation::rows_by_keys> {
  static constexpr int kLogCounters = 2;  // counters of a line
  static constexpr i64 kNeighbours = 1;   // lines with the same counters, twice: in both halves
  using Number = u16;                     // one element of a line
};
template <>
struct Sharing<Orientation::keys_by_rows> {
  static constexpr int kLogCounters = 3;
  static constexpr i64 kNeighbours = 2;
  using Number = u32;  // one element of either neighbour
};

// Numbers are those along the lines that share counters, for the block's first and last 8 lines. A
// strip that begins inside a block crosses one more, and its last lanes may draw up to 3 too many.
template <Orientation kOrientation>
struct Numbers {
  alignas(64) typename Sharing<kOrientation>::Number of_half[2][kStrip + 5 * kBlock];
};

// Draws the numbers of the lines that share counters, from the start of the first block on; `line`
// is one of them.
template <Orientation kOrientation>
HWY_ATTR void draw(const Drop& drop, const RoundKeys& keys, i64 line, Range blocks,
                   Numbers<kOrientation>& numbers) {
  using Share = Sharing<kOrientation>;
  constexpr bool kLinesAreRows = kOrientation == Orientation::rows_by_keys;
  constexpr i64 kCounters = i64{1} << Share::kLogCounters;
  constexpr i64 kPerWord = kLinesAreRows ? 2 : 1;  // numbers
  const i64 lanes = 2 * static_cast<i64>(hn::Lanes(Wide()));
  const i64 piece = min(lanes, kCounters);  // lanes of one block

  // Takes lanes first, first + 2, ...: two words a 64-bit lane come back together in the end.
  const auto counters = [&](i64 first) HWY_ATTR {
    const Word lane = hn::Add(hn::ShiftLeft<1>(hn::Iota(Wide(), 0)), word(first));
    const Word along = hn::Add(hn::ShiftRight<Share::kLogCounters>(lane), word(blocks.begin));
    const Word across = word(line / kBlock);
    const Word within = hn::And(lane, word(kCounters - 1));
    const i64 shared = line % kHalf / Share::kNeighbours;
    return Counters{.x = kLinesAreRows ? along : across,
                    .y = kLinesAreRows ? across : along,
                    .z = word(drop.slice),
                    .w = kLinesAreRows ? hn::Add(within, word(4 * shared))
                                       : hn::Add(hn::ShiftLeft<2>(within), word(shared))};
  };
  const auto join = [](Word even, Word odd) HWY_ATTR {
    return hn::Or(hn::And(even, word(0xFFFFFFFF)), hn::ShiftLeft<32>(odd));
  };

  for (i64 at = 0; at < blocks.size() * kCounters; at += lanes) {
    const Counters even = philox(counters(at), keys), odd = philox(counters(at + 1), keys);
    alignas(64) u64 drawn[4][kTileColumns / 2];
    hn::Store(join(even.x, odd.x), Wide(), drawn[0]);
    hn::Store(join(even.y, odd.y), Wide(), drawn[1]);
    hn::Store(join(even.z, odd.z), Wide(), drawn[2]);
    hn::Store(join(even.w, odd.w), Wide(), drawn[3]);
    for (i64 lane = 0; lane < lanes; lane += piece) {
      const i64 block = (at + lane) / kCounters, within = (at + lane) % kCounters;
      for (i64 half = 0; half < 2; ++half) {             // of the block's lines
        for (i64 section = 0; section < 2; ++section) {  // half of the block along the lines
          const u64* words = drawn[kLinesAreRows ? 2 * section + half : 2 * half + section];
          std::memcpy(numbers.of_half[half] + block * kBlock + section * kHalf + within * kPerWord,
                      words + lane / 2, static_cast<std::size_t>(piece) * sizeof(u32));
        }
      }
    }
  }
}

// Clears or marks the dropped elements of a line, `numbers` being those of its columns.
template <Orientation kOrientation>
HWY_ATTR void drop_line(const Drop& drop, i64 line,
                        const typename Sharing<kOrientation>::Number* numbers, i64 columns,
                        float* p) {
  using Number = typename Sharing<kOrientation>::Number;
  const hn::RebindToSigned<Lanes> integers;
  const auto threshold = hn::Set(integers, static_cast<i32>(drop.dropout.threshold));
  const int shift = line % 2 == 0 ? 0 : 16;  // which neighbour's half of a word
  for (i64 c = 0; c < columns; c += lane_count()) {
    const auto read = hn::LoadU(hn::Rebind<Number, Lanes>(), numbers + c);
    auto number = hn::Zero(integers);
    if constexpr (kOrientation == Orientation::rows_by_keys) {
      number = hn::PromoteTo(integers, read);
    } else {
      number = hn::And(hn::ShiftRightSame(hn::BitCast(integers, read), shift),
                       hn::Set(integers, 0xFFFF));
    }
    const auto dropped = hn::RebindMask(Lanes(), hn::Lt(number, threshold));
    const Vector kept = load(p + c);
    const Vector otherwise =
        drop.action == DropAction::mark ? hn::Or(kept, splat(-0.0f)) : hn::Zero(Lanes());
    store(hn::IfThenElse(dropped, otherwise, kept), p + c);
  }
}

// Drops in the lines that share counters: `first`, its neighbours and those 8 lines on.
template <Orientation kOrientation>
HWY_ATTR void drop_sharing_lines(const Drop& drop, const RoundKeys& keys, i64 first) {
  constexpr bool kLinesAreRows = kOrientation == Orientation::rows_by_keys;
  const Range lines = kLinesAreRows ? drop.rows : drop.keys;
  const Range along = kLinesAreRows ? drop.keys : drop.rows;
  const i64 last = first + Sharing<kOrientation>::kNeighbours;
  const Range sharing[2] = {intersect(lines, {first, last}),
                            intersect(lines, {first + kHalf, last + kHalf})};
  if (sharing[0].empty() && sharing[1].empty()) return;
  Numbers<kOrientation> numbers;
  for (i64 begin = along.begin; begin < along.end; begin += kStrip) {
    const i64 columns = round_up(min(kStrip, along.end - begin), kTileColumns);
    const Range blocks = {begin / kBlock, ceil_div(begin + columns, kBlock)};
    draw(drop, keys, first, blocks, numbers);
    for (int half = 0; half < 2; ++half) {
      for (i64 line = sharing[half].begin; line < sharing[half].end; ++line) {
        drop_line<kOrientation>(drop, line, numbers.of_half[half] + begin % kBlock, columns,
                                drop.p + (line - lines.begin) * drop.ld + begin - along.begin);
      }
    }
  }
}

template <Orientation kOrientation>
HWY_ATTR void drop_lines(const Drop& drop, Range lines) {
  const RoundKeys keys(drop.dropout.key);
  for (i64 block = lines.begin / kBlock * kBlock; block < lines.end; block += kBlock) {
    for (i64 first = block; first < block + kHalf; first += Sharing<kOrientation>::kNeighbours) {
      drop_sharing_lines<kOrientation>(drop, keys, first);
    }
  }
}

}  // namespace

void drop(const Drop& drop) {
  switch (drop.orientation) {
    case Orientation::rows_by_keys: return drop_lines<Orientation::rows_by_keys>(drop, drop.rows);
    case Orientation::keys_by_rows: return drop_lines<Orientation::keys_by_rows>(drop, drop.keys);
  }
}

}  // namespace attnlab::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
