#include "harness/plan/lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "harness/base/errors.h"
#include "harness/base/text_table.h"

namespace attnlab {
namespace {

// Draws uniformly from [minimum, maximum], alike on every platform (unlike the standard library's
// std::uniform_int_distribution). The remainder's bias is below 2^-32: lengths are below 2^32.
std::int64_t draw(std::mt19937_64& engine, std::int64_t minimum, std::int64_t maximum) {
  const auto span = static_cast<std::uint64_t>(maximum - minimum) + 1;
  return minimum + static_cast<std::int64_t>(engine() % span);
}

// Draws the seed's lengths from [minimum, maximum], one for each entry.
std::vector<std::int64_t> draw_lengths(std::mt19937_64& engine, const Problem& problem,
                                       std::int64_t minimum, std::int64_t maximum) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    lengths.push_back(draw(engine, minimum, maximum));
  }
  return lengths;
}

// Returns the fewest keys that an entry may get under the problem's padding mask.
std::int64_t fewest_keys(const Problem& problem) {
  constexpr std::int64_t kDefaultSpread = 20;
  const std::int64_t given = problem.mask.padding->minimum;
  const std::int64_t minimum =
      given >= 0 ? given : std::max<std::int64_t>(1, problem.seqlen_k - kDefaultSpread);
  if (minimum > problem.seqlen_k) {
    throw UsageError(fmt::format("mask: '{}' needs {} keys but seqlen_k is {}",
                                 to_string(problem.mask), minimum, problem.seqlen_k));
  }
  return minimum;
}

LengthsKind kind_of_lengths(const Problem& problem) {
  if (problem.layout == Layout::packed) return LengthsKind::packed;
  return problem.mask.padding ? LengthsKind::padding : LengthsKind::dense;
}

// Draws for packed entries queries and keys in [1, seqlen], equal where seqlen_q = seqlen_k.
Lengths drawn_lengths(const Problem& problem) {
  Lengths lengths{.kind = kind_of_lengths(problem)};
  std::mt19937_64 engine(problem.seed);
  if (lengths.kind == LengthsKind::padding) {
    lengths.keys = draw_lengths(engine, problem, fewest_keys(problem), problem.seqlen_k);
  } else if (lengths.kind == LengthsKind::packed) {
    lengths.queries = draw_lengths(engine, problem, 1, problem.seqlen_q);
    const bool square = problem.seqlen_q == problem.seqlen_k;
    lengths.keys = square ? lengths.queries : draw_lengths(engine, problem, 1, problem.seqlen_k);
  }
  return lengths;
}

// Throws where an entry's length is above the sequence length of the tensors.
void check_lengths(const std::vector<std::int64_t>& lengths, std::int64_t seqlen, const char* axis,
                   const std::string& text) {
  for (const std::int64_t length : lengths) {
    if (length <= seqlen) continue;
    throw UsageError(
        fmt::format("lengths: '{}' has an entry of {}, but {} is {}: shorten the entry or raise {}",
                    text, length, axis, seqlen, axis));
  }
}

}  // namespace

Lengths make_lengths(const Problem& problem) {
  if (problem.mask.padding && problem.layout == Layout::packed) {
    throw UsageError(
        "mask: padding has no meaning with layout packed, whose entries hold no padding: "
        "choose one of them, and state lengths with the axis lengths");
  }
  if (!problem.lengths.given) return drawn_lengths(problem);
  Lengths lengths = problem.lengths;
  lengths.kind = kind_of_lengths(problem);
  const std::string text = to_string(lengths);
  if (lengths.kind == LengthsKind::dense) {
    throw UsageError(
        fmt::format("lengths: '{}' needs entries of different lengths: take layout "
                    "packed or mask padding, or leave lengths out",
                    text));
  }
  if (lengths.keys.size() != static_cast<std::size_t>(problem.batch)) {
    throw UsageError(fmt::format("lengths: '{}' are {}, but batch is {}: take batch {}, or give {}",
                                 text, count_of(lengths.keys.size(), "length"), problem.batch,
                                 lengths.keys.size(), problem.batch));
  }
  check_lengths(lengths.keys, problem.seqlen_k, "seqlen_k", text);
  if (lengths.kind == LengthsKind::packed) {
    check_lengths(lengths.queries, problem.seqlen_q, "seqlen_q", text);
  } else if (lengths.queries == lengths.keys) {
    lengths.queries.clear();  // padding hides keys alone
  } else {
    throw UsageError(
        fmt::format("lengths: '{}' gives queries, but mask padding hides keys alone: write the "
                    "keys of each entry, or take layout packed",
                    text));
  }
  return lengths;
}

}  // namespace attnlab
