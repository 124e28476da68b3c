// Draws random problems and configs, each from a seed of its own, the same on every platform.
#pragma once

#include <cstdint>

#include "harness/plan/sweep.h"

namespace attnlab::verify {

// A random problem has at most this many (row, key) pairs over all heads.
inline constexpr std::int64_t kMostPairs = std::int64_t{1} << 22;

struct RandomProblem {
  Problem problem;  // says nothing of the pass
  InputKind kind = InputKind::normal;
  std::uint64_t seed = 0;  // of the inputs, too
};

// Draws number `index` of a seed: any type, layout, mask with all its parts, dropout, grouped
// heads, lengths of entries with empty ones among them, head dim, scale and kind of inputs; mostly
// short and odd, one in seven long, none longer than `longest`.
RandomProblem draw_problem(std::uint64_t seed, std::int64_t index, std::int64_t longest);

// Draws number `index` of e4m3, which has numbers and seeds of its own: any scales of Q and K and
// of V, rotated or not, head dims that are multiples of 16, every kind of inputs (a V of mean 1 is
// for configs whose sums are promoted, see random.cpp), and entries of 0 and of 1 row or key; else
// as above, but for dropout, which e4m3 has not got.
RandomProblem draw_e4m3_problem(std::uint64_t seed, std::int64_t index, std::int64_t longest);

// Draws for a kernel that is compiled for its config (Implementation::units) only axes of 0 and 1,
// whether products of e4m3 are promoted, and Implementation::configs_to_verify where they suit the
// problem; all others are at their defaults. So it is compiled as often as there are head dims and
// such configs, not once a problem; a pass takes problems of 24 such choices (random.cpp).
//
// Any other kernel gets every axis at its default, or anywhere in its range, small values as likely
// as large ones; but no tiles so small that a sequence has more than kMostTiles of them. Each tile
// is one addition to a row's sum in fp32, and equal scores (inputs of few values) round the same
// way every time: with tiles of one key, v3's lse of 2796 keys was off by four times its bound.
// Tiles of every size are among the fixed shapes, of fewer keys.
inline constexpr std::int64_t kMostTiles = 128;
Config draw_config(const Implementation& kernel, const Problem& problem, std::uint64_t seed);

// Returns whether the tiles of a config are so small. With a config that the kernel has filled in
// it also tells where tiles follow from other axes.
bool has_too_small_tiles(const Config& config, const Problem& problem);

}  // namespace attnlab::verify
