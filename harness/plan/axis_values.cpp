#include "harness/plan/axis_values.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "kernels/api/text.h"

namespace attnlab {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;
constexpr const char* kIntegerForms = "write N, A:B:xF or A:B:+S (a suffix k is 1024)";

template <class T>
T parse_number(std::string_view text, T minimum, T maximum) {
  const std::string_view whole = text;
  const bool kilo = text.ends_with('k');
  if (kilo) text.remove_suffix(1);
  const bool is_below = std::is_unsigned_v<T> && text.starts_with('-');
  if (is_below) text.remove_prefix(1);
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) {
    throw std::invalid_argument(
        fmt::format("'{}' is not a whole number; {}", whole, kIntegerForms));
  }
  const T unit = kilo ? 1024 : 1;
  if (is_below || error != std::errc() || value < minimum || value > maximum / unit) {
    throw std::invalid_argument(fmt::format("{} is outside [{}, {}]", whole, minimum, maximum));
  }
  return value * unit;
}

// Reads the number that a range multiplies by or adds.
template <class T>
T parse_step(std::string_view item, std::string_view text, T minimum, T maximum) {
  try {
    return parse_number<T>(text, minimum, maximum);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(
        fmt::format("the {} of '{}': {}", minimum == 2 ? "factor" : "step", item, error.what()));
  }
}

// Reads a number; returns nothing if no double can hold it.
std::optional<double> parse_fraction(std::string_view item) {
  double value = 0;
  const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
  if (error == std::errc::invalid_argument || end != item.data() + item.size()) {
    throw std::invalid_argument(fmt::format("'{}' is not a number", item));
  }
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

template <class T>
std::vector<T> parse_range(std::string_view item, T minimum, T maximum) {
  const auto parts = split(item, ':');
  if (parts.size() == 1) return {parse_number<T>(item, minimum, maximum)};
  const bool has_step = parts.size() == 3 && parts[2].size() > 1;
  const char kind = has_step ? parts[2][0] : '?';
  if (kind != 'x' && kind != '+') {
    throw std::invalid_argument(fmt::format("'{}' is not a range; {}", item, kIntegerForms));
  }
  const T first = parse_number<T>(parts[0], minimum, maximum);
  const T last = parse_number<T>(parts[1], minimum, maximum);
  const T step =
      parse_step<T>(item, parts[2].substr(1), kind == 'x' ? 2 : 1, std::numeric_limits<T>::max());
  if (first > last || (kind == 'x' && first <= 0)) {
    throw std::invalid_argument(fmt::format("'{}' never reaches its end", item));
  }
  std::vector<T> values;
  for (T value = first;; value = kind == 'x' ? value * step : value + step) {
    values.push_back(value);
    if (values.size() > kMostValues) {
      throw std::invalid_argument(fmt::format("'{}' has more than {} values", item, kMostValues));
    }
    const bool more = kind == 'x' ? value <= last / step : step <= last - value;
    if (!more) return values;
  }
}

constexpr const char* kLengthsForms =
    "write drawn, or the keys of each entry, like 300+512, or queries x keys, like 100x300+512x512";

std::int64_t parse_length(std::string_view text, std::string_view item) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), [](char c) {
        return c == 'k' || std::isdigit(static_cast<unsigned char>(c));
      })) {
    throw std::invalid_argument(fmt::format("'{}' are no lengths; {}", item, kLengthsForms));
  }
  return parse_number<std::int64_t>(text, 0, kLargestSize);
}

}  // namespace

bool is_block_axis(std::string_view name) { return name == "block_m" || name == "block_n"; }

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::vector<std::int64_t> parse_sizes(std::string_view item) {
  return parse_range<std::int64_t>(item, 1, kLargestSize);
}

std::vector<std::uint64_t> parse_seeds(std::string_view item) {
  return parse_range<std::uint64_t>(item, 0, ~std::uint64_t{0});
}

std::vector<std::int64_t> parse_whole(std::string_view item, std::int64_t minimum,
                                      std::int64_t maximum) {
  return parse_range<std::int64_t>(item, minimum, maximum);
}

std::vector<MaskSpec> parse_masks(std::string_view item) { return {parse_mask(item)}; }

std::vector<Lengths> parse_lengths(std::string_view item) {
  if (item == "drawn") return {Lengths{}};
  Lengths lengths{.given = true};
  for (const std::string_view entry : split(item, '+')) {
    const auto sides = split(entry, 'x');
    if (sides.size() > 2) {
      throw std::invalid_argument(fmt::format("'{}' are no lengths; {}", item, kLengthsForms));
    }
    lengths.queries.push_back(parse_length(sides.front(), item));
    lengths.keys.push_back(parse_length(sides.back(), item));
  }
  return {lengths};
}

std::vector<double> parse_probability(std::string_view item) {
  const auto value = parse_fraction(item);
  if (!value || !(*value >= 0.0 && *value < 1.0)) {
    throw std::invalid_argument(fmt::format("{} is outside [0, 1)", item));
  }
  return {std::abs(*value)};  // -0 becomes 0
}

std::vector<double> parse_scale(std::string_view item) {
  const auto value = parse_fraction(item);
  if (!value || !(std::isfinite(*value) && *value >= 0.0)) {
    throw std::invalid_argument(
        fmt::format("{} is neither positive nor 0 (1 / sqrt(head_dim))", item));
  }
  return {std::abs(*value)};
}

std::vector<std::string> parse_kernel(std::string_view item) {
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  if (!std::all_of(item.begin(), item.end(), allowed)) {
    throw std::invalid_argument(fmt::format("'{}' is not the name of a kernel", item));
  }
  return {std::string(item)};
}

std::vector<std::pair<std::int64_t, std::int64_t>> parse_block(std::string_view item) {
  const auto sides = split(item, 'x');
  if (sides.size() != 2) {
    throw std::invalid_argument(fmt::format("'{}' is not a block; write MxN, like 64x128", item));
  }
  constexpr std::int64_t kLargestBlock = 1 << 20;
  return {{parse_number<std::int64_t>(sides[0], 0, kLargestBlock),
           parse_number<std::int64_t>(sides[1], 0, kLargestBlock)}};
}

std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(std::uint64_t value) { return std::to_string(value); }
std::string text_of(double value) { return fmt::format("{}", value); }
std::string text_of(const std::string& value) { return value; }
std::string text_of(const Lengths& value) { return value.given ? to_string(value) : "drawn"; }
std::string text_of(const std::pair<std::int64_t, std::int64_t>& block) {
  return fmt::format("{}x{}", block.first, block.second);
}

}  // namespace attnlab
