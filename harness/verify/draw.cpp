#include "harness/verify/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "harness/base/derive_seed.h"
#include "harness/plan/axis_values.h"

namespace attnlab::verify {

namespace {

constexpr std::initializer_list<std::int64_t> kOftenHeadDims = {16, 64, 128};
constexpr std::int64_t kRareHeadDims[] = {1, 2, 3, 5, 6, 7, 11, 13, 20, 33, 256};

// The multiples of 8 up to 256, on which kernels of tensor cores depend, are dealt to four seeds
// in a row.
constexpr std::int64_t kCycle = 4;
constexpr std::int64_t kDealt = 256 / 8 / kCycle;  // to each

std::int64_t dealt_head_dim(std::uint64_t seed, std::int64_t i) {
  return 8 * (1 + static_cast<std::int64_t>(seed % kCycle) + kCycle * i);
}

// Draws alike everywhere: distributions of <random> differ from one standard library to another.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  // Draws from [minimum, maximum].
  std::int64_t whole(std::int64_t minimum, std::int64_t maximum) {
    return minimum +
           static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(maximum - minimum + 1));
  }
  bool chance(int percent) { return whole(1, 100) <= percent; }
  template <class T>
  T any_of(std::initializer_list<T> values) {
    return values.begin()[whole(0, static_cast<std::int64_t>(values.size()) - 1)];
  }
  // Draws from [minimum, maximum], with a logarithm that is spread evenly.
  std::int64_t logarithmic(std::int64_t minimum, std::int64_t maximum) {
    if (minimum < 0) return minimum + logarithmic(0, maximum - minimum);
    const double low = std::log(static_cast<double>(minimum) + 1.0);
    const double high = std::log(static_cast<double>(maximum) + 2.0);
    const double unit = static_cast<double>(engine_() >> 11) * 0x1p-53;
    const auto drawn = static_cast<std::int64_t>(std::exp(low + unit * (high - low))) - 1;
    return std::clamp(drawn, minimum, maximum);
  }

 private:
  std::mt19937_64 engine_;
};

std::int64_t draw_seqlen(Random& random, std::int64_t minimum, std::int64_t maximum) {
  const std::int64_t seqlen = random.whole(minimum, maximum);
  if (!random.chance(30)) return seqlen;
  return std::clamp((seqlen + 32) / 64 * 64 + random.whole(-1, 1), minimum, maximum);
}

// Draws mostly small lengths, up to `small`; some medium, some oblong, some large.
void draw_seqlens(Random& random, std::int64_t small, std::int64_t longest, Problem& problem) {
  const std::int64_t kind = random.whole(0, 19);
  const auto draw = [&](std::int64_t minimum, std::int64_t maximum) {
    return draw_seqlen(random, std::min(minimum, longest), std::min(maximum, longest));
  };
  if (kind < 12) {
    problem.seqlen_q = draw(1, small);
    problem.seqlen_k = draw(1, small);
  } else if (kind < 17) {
    problem.seqlen_q = draw(1, 640);
    problem.seqlen_k = draw(1, 640);
  } else if (kind < 19) {
    problem.seqlen_q = draw(1, 64);
    problem.seqlen_k = draw(1, 4224);
    if (random.chance(50)) std::swap(problem.seqlen_q, problem.seqlen_k);
  } else {
    problem.seqlen_q = draw(640, 1500);
    problem.seqlen_k = draw(640, 1500);
  }
  if (kind < 17 && random.chance(40)) problem.seqlen_k = problem.seqlen_q;
}

void draw_heads(Random& random, Problem& problem) {
  problem.batch = random.whole(1, 4);
  problem.num_heads_kv = random.any_of<std::int64_t>({1, 1, 2, 3, 4});
  std::int64_t sharing = random.any_of<std::int64_t>({1, 1, 1, 2, 3, 4, 5, 6, 7, 8});
  const auto too_many = [&] {
    return problem.batch * problem.num_heads_kv * sharing * problem.seqlen_q * problem.seqlen_k >
           kMostPairs;
  };
  for (std::int64_t* count : {&sharing, &problem.num_heads_kv, &problem.batch}) {
    while (*count > 1 && too_many()) --*count;
  }
  problem.num_heads_q = problem.num_heads_kv * sharing;
}

std::string draw_pattern(Random& random) {
  const auto small = [&] { return random.whole(0, 2); };
  std::string name;
  switch (random.whole(0, 5)) {
    case 0: name = "butterfly"; break;
    case 1: name = fmt::format("local:{}", small()); break;
    case 2: name = fmt::format("strided:{}:{}", small(), random.whole(1, 5)); break;
    case 3: name = fmt::format("longformer:{}:{}", small(), small()); break;
    case 4:
      name = fmt::format("bigbird:{}:{}:{}:{}", small(), small(), small(), random.whole(0, 99));
      break;
    default: name = fmt::format("random:{}:{}", random.whole(0, 100), random.whole(0, 99));
  }
  const auto block = [&] {
    return random.chance(50) ? random.any_of<std::int64_t>({16, 32, 64}) : random.whole(1, 80);
  };
  const std::int64_t block_q = block();
  return fmt::format("blocks:{}:{}x{}", name, block_q, block());
}

MaskSpec draw_mask(Random& random, const Problem& problem) {
  std::vector<std::string> parts;
  if (random.chance(35)) parts.emplace_back("causal");
  if (random.chance(25)) {
    const std::int64_t farthest = std::max(problem.seqlen_q, problem.seqlen_k);
    const auto side = [&] { return random.chance(25) ? -1 : random.logarithmic(0, farthest); };
    const std::int64_t left = side();
    parts.push_back(fmt::format("window:{}:{}", left, side()));
  }
  if (problem.layout != Layout::packed && random.chance(25)) parts.emplace_back("padding");
  if (problem.seqlen_q == problem.seqlen_k && random.chance(40)) {
    parts.push_back(draw_pattern(random));
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "+") + part;
  return parse_mask(text.empty() ? "none" : text);
}

// Draws lengths of entries: the first is as long as the tensors, one in six is empty, and one in
// four ends where tiles do.
std::vector<std::int64_t> draw_entries(Random& random, std::int64_t batch, std::int64_t seqlen) {
  std::vector<std::int64_t> lengths = {seqlen};
  while (static_cast<std::int64_t>(lengths.size()) < batch) {
    const std::int64_t drawn = random.chance(17) ? 0 : random.whole(0, seqlen);
    const std::int64_t border = random.any_of<std::int64_t>({64, 128});
    lengths.push_back(random.chance(25) ? drawn / border * border : drawn);
  }
  return lengths;
}

Lengths draw_lengths(Random& random, const Problem& problem) {
  Lengths lengths{.kind = LengthsKind::dense};
  if (problem.layout == Layout::packed) {
    lengths = {.kind = LengthsKind::packed, .given = true};
    lengths.queries = draw_entries(random, problem.batch, problem.seqlen_q);
    const bool same = problem.seqlen_q == problem.seqlen_k && random.chance(50);
    lengths.keys = same ? lengths.queries : draw_entries(random, problem.batch, problem.seqlen_k);
  } else if (problem.mask.padding) {
    lengths = {.kind = LengthsKind::padding, .given = true};
    lengths.keys = draw_entries(random, problem.batch, problem.seqlen_k);
    std::ranges::reverse(lengths.keys);
  }
  return lengths;
}

// Draws what all types have in common behind layout and head_dim.
void draw_shape(Random& random, std::int64_t small, std::int64_t longest, Problem& problem) {
  draw_seqlens(random, small, longest, problem);
  draw_heads(random, problem);
  problem.mask = draw_mask(random, problem);
  problem.lengths = draw_lengths(random, problem);
}

// Makes some entries one row or key long, but none of those that are as long as the tensors.
void shorten_entries(Random& random, Problem& problem) {
  const auto shorten = [&](std::vector<std::int64_t>& lengths, std::int64_t seqlen) {
    for (std::int64_t& length : lengths) {
      if (length < seqlen && random.chance(20)) length = 1;
    }
  };
  shorten(problem.lengths.queries, problem.seqlen_q);
  shorten(problem.lengths.keys, problem.seqlen_k);
}

// Draws scales, most of them the default. Large logits with a large scale would leave the range of
// f16. With a scale far above 1 a row sees one key, far below 1 all keys alike.
void draw_scale(Random& random, InputKind kind, Problem& problem) {
  if (kind == InputKind::large_logits || !random.chance(25)) return;
  problem.softmax_scale =
      static_cast<double>(random.whole(10, 99)) / random.any_of({10.0, 100.0, 1000.0, 10000.0});
}

// Returns the least rows or keys of a tile.
std::int64_t least_tile(const Problem& problem) {
  const std::int64_t longest = std::max(problem.seqlen_q, problem.seqlen_k);
  return (longest + kMostTiles - 1) / kMostTiles;
}

// Returns the least value to draw for an axis. Tiles that follow from it are checked when known.
std::int64_t least(const ConfigAxis& axis, const Problem& problem) {
  return std::min(
      is_block_axis(axis.name) ? std::max(axis.minimum, least_tile(problem)) : axis.minimum,
      axis.maximum);
}

// Returns the configs to verify that the problem may be given.
std::vector<Config> configs_for(const Implementation& kernel, const Problem& problem) {
  std::vector<Config> configs;
  if (kernel.configs_to_verify == nullptr) return configs;
  for (const ConfigsToVerify& group : kernel.configs_to_verify()) {
    const bool suits = group.head_dim == problem.head_dim && group.dtype == problem.dtype &&
                       (group.dropout > 0.0) == (problem.dropout > 0.0) &&
                       (group.quantisation.has_blocks() || !problem.quantisation.has_blocks());
    if (suits) configs.insert(configs.end(), group.configs.begin(), group.configs.end());
  }
  std::erase_if(configs,
                [&](const Config& config) { return has_too_small_tiles(config, problem); });
  return configs;
}

// Returns a seed's head dims, ascending: a kernel that is compiled for its head_dim is compiled for
// 22 of them at most, however many problems there are.
std::vector<std::int64_t> head_dims_of(std::uint64_t seed) {
  std::vector<std::int64_t> head_dims(std::begin(kRareHeadDims), std::end(kRareHeadDims));
  head_dims.insert(head_dims.end(), std::begin(kOftenHeadDims), std::end(kOftenHeadDims));
  for (std::int64_t i = 0; i < kDealt; ++i) head_dims.push_back(dealt_head_dim(seed, i));
  std::ranges::sort(head_dims);
  return head_dims;
}

// Gives every other problem a multiple of 8 that was dealt to the seed, each in turn.
std::int64_t draw_head_dim(Random& random, std::uint64_t seed, std::int64_t index) {
  if (index % 2 == 0) return dealt_head_dim(seed, index / 2 % kDealt);
  if (random.chance(40)) return random.any_of(kOftenHeadDims);
  const std::vector<std::int64_t> all = head_dims_of(seed);
  return *std::ranges::lower_bound(all, random.logarithmic(1, 256));
}

// Gives every other problem of e4m3 a multiple of 16, each in turn: rows of codes are whole chunks
// of 16 bytes. The kernels of a GPU are compiled for multiples of 64.
std::int64_t draw_e4m3_head_dim(Random& random, std::int64_t index) {
  constexpr std::int64_t kMultiples = 256 / 16;
  if (index % 2 == 0) return 16 * (1 + index / 2 % kMultiples);
  return random.any_of<std::int64_t>({64, 128});
}

// Most problems of e4m3 are no longer than this: about as many have one block of scales, of 128
// rows, as have two or three.
constexpr std::int64_t kSmallOfE4m3 = 300;

}  // namespace

RandomProblem draw_problem(std::uint64_t seed, std::int64_t index, std::int64_t longest) {
  const std::uint64_t own_seed = derive_seed(seed, fmt::format("random/{}", index));
  Random random(own_seed);
  RandomProblem result{.seed = own_seed};
  Problem& problem = result.problem;
  problem.seed = own_seed;
  problem.dtype = random.any_of({Dtype::f32, Dtype::f16, Dtype::bf16});
  problem.layout = random.any_of({Layout::bshd, Layout::bhsd, Layout::packed});
  problem.head_dim = draw_head_dim(random, seed, index);
  draw_shape(random, 160, longest, problem);
  if (random.chance(50)) {
    problem.dropout = random.chance(50) ? random.any_of({0.1, 0.2, 0.5, 0.9})
                                        : static_cast<double>(random.whole(1, 65000)) / 65536.0;
  }
  result.kind =
      random.any_of({InputKind::normal, InputKind::uniform, InputKind::integers,
                     InputKind::large_logits, InputKind::outlier, InputKind::outlier_channel});
  draw_scale(random, result.kind, problem);
  return result;
}

RandomProblem draw_e4m3_problem(std::uint64_t seed, std::int64_t index, std::int64_t longest) {
  const std::uint64_t own_seed = derive_seed(seed, fmt::format("random/e4m3/{}", index));
  Random random(own_seed);
  RandomProblem result{.seed = own_seed};
  Problem& problem = result.problem;
  problem.seed = own_seed;
  problem.dtype = Dtype::e4m3;
  problem.quantisation = {
      .qk = random.any_of({ScaleOf::tensor, ScaleOf::head, ScaleOf::block}),
      .v = random.any_of({ScaleOf::tensor, ScaleOf::head, ScaleOf::block, ScaleOf::channel}),
      .rotate = random.chance(50)};
  problem.layout = random.any_of({Layout::bshd, Layout::bhsd, Layout::packed});
  problem.head_dim = draw_e4m3_head_dim(random, index);
  draw_shape(random, kSmallOfE4m3, longest, problem);
  shorten_entries(random, problem);
  result.kind =
      random.any_of({InputKind::normal, InputKind::uniform, InputKind::integers,
                     InputKind::large_logits, InputKind::outlier, InputKind::outlier_channel,
                     InputKind::v_one, InputKind::v_mean_one, InputKind::sink});
  draw_scale(random, result.kind, problem);
  return result;
}

Config draw_config(const Implementation& kernel, const Problem& problem, std::uint64_t seed) {
  Random random(seed);
  Config config = default_config(kernel);
  for (const ConfigAxis& axis : axes_of(kernel)) {
    const bool yes_or_no = axis.minimum == 0 && axis.maximum == 1;
    const bool promotes = problem.is_e4m3() && axis.role == AxisRole::promotes;
    if (kernel.units != nullptr && !yes_or_no && !promotes) continue;
    const std::int64_t drawn = random.logarithmic(least(axis, problem), axis.maximum);
    if (random.chance(70)) config.set(axis.name, drawn);
  }
  if (kernel.units == nullptr || !random.chance(70)) return config;
  const std::vector<Config> configs = configs_for(kernel, problem);
  if (configs.empty()) return config;
  const auto drawn = random.whole(0, static_cast<std::int64_t>(configs.size()) - 1);
  config.set_all(configs[static_cast<std::size_t>(drawn)]);
  return config;
}

bool has_too_small_tiles(const Config& config, const Problem& problem) {
  return std::ranges::any_of(config.values(), [&](const auto& value) {
    return is_block_axis(value.first) && value.second > 0 && value.second < least_tile(problem);
  });
}

}  // namespace attnlab::verify
