// Reads and writes the values of axes: an item of a comma list gives one or several values, which
// have canonical texts. Readers throw std::invalid_argument with a sentence that holds the item.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/base/suggest.h"
#include "kernels/api/problem.h"

namespace attnlab {

// Limits the values of one axis, so that a slip like 1:100000:+1 does not fill the memory.
inline constexpr std::size_t kMostValues = 4096;

// Returns whether a config axis is block_m or block_n, which sweeps set together (`block`).
bool is_block_axis(std::string_view name);

// Takes blanks and tabs off both ends.
std::string_view trim(std::string_view text);

// Reads whole numbers: N, A:B:xF or A:B:+S.
std::vector<std::int64_t> parse_sizes(std::string_view item);
std::vector<std::uint64_t> parse_seeds(std::string_view item);
std::vector<std::int64_t> parse_whole(std::string_view item, std::int64_t minimum,
                                      std::int64_t maximum);

std::vector<MaskSpec> parse_masks(std::string_view item);

// Reads "drawn", or the keys (or queries x keys) of each entry: "300+512", "100x300+512x512". It
// sets `given` and both lists; the lists are empty where the lengths are drawn.
std::vector<Lengths> parse_lengths(std::string_view item);

std::vector<double> parse_probability(std::string_view item);
// Reads a factor of the scores; 0 means 1 / sqrt(head_dim).
std::vector<double> parse_scale(std::string_view item);
std::vector<std::string> parse_kernel(std::string_view item);
// Reads MxN; 0 leaves the choice to the kernel.
std::vector<std::pair<std::int64_t, std::int64_t>> parse_block(std::string_view item);

// Reads the value of an enumeration that to_string() calls `item`.
template <class T, T... kValues>
std::vector<T> parse_name(std::string_view item) {
  for (const T value : {kValues...}) {
    if (item == to_string(value)) return {value};
  }
  throw std::invalid_argument(
      fmt::format("'{}' is unknown{}", item, suggestion(item, {to_string(kValues)...})));
}

// ---- Canonical text ----

std::string text_of(std::int64_t value);
std::string text_of(std::uint64_t value);
std::string text_of(double value);
std::string text_of(const std::string& value);
std::string text_of(const Lengths& value);
std::string text_of(const std::pair<std::int64_t, std::int64_t>& block);
template <class T>
std::string text_of(const T& value) {  // enumerations and masks
  return to_string(value);
}

}  // namespace attnlab
