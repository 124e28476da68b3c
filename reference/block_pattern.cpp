#include "reference/block_pattern.h"

#include <bit>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>

#include "kernels/shared/philox.h"

namespace attnlab::reference {
namespace {

// Drawing is a pattern: the union of simple parts, drawn one over the other.
class Drawing {
 public:
  Drawing(std::int64_t rows, std::int64_t columns)
      : visible_(static_cast<std::size_t>(rows),
                 std::vector<bool>(static_cast<std::size_t>(columns))) {}

  // Makes all (i, j) visible for which `belongs` is true.
  template <class Belongs>
  void add(const Belongs& belongs) {
    for (std::size_t i = 0; i < visible_.size(); ++i) {
      for (std::size_t j = 0; j < visible_[i].size(); ++j) {
        const bool is_in = belongs(static_cast<std::int64_t>(i), static_cast<std::int64_t>(j));
        visible_[i][j] = visible_[i][j] || is_in;
      }
    }
  }

  void add_butterfly() {
    add([](auto i, auto j) {
      return i == j || std::has_single_bit(static_cast<std::uint64_t>(i ^ j));
    });
  }
  void add_local(std::int64_t width) {
    add([width](auto i, auto j) { return std::abs(i - j) <= width; });
  }
  void add_strides(std::int64_t stride) {
    add([stride](auto i, auto j) { return stride > 0 && (i - j) % stride == 0; });
  }
  void add_global(std::int64_t count) {
    add([count](auto i, auto j) { return i < count || j < count; });
  }
  // Makes `draws` blocks of every row visible, with replacement.
  void add_random_blocks(std::int64_t draws, std::uint64_t seed) {
    for (std::size_t i = 0; i < visible_.size(); ++i) {
      for (std::int64_t t = 0; t < draws; ++t) {
        visible_[i][number(t, i, 1, seed) % visible_[i].size()] = true;
      }
    }
  }
  // Makes every block visible with a chance of `percent` / 100.
  void add_at_random(std::int64_t percent, std::uint64_t seed) {
    const std::uint64_t limit = static_cast<std::uint64_t>(percent) << 32;
    add([&](auto i, auto j) {
      return std::uint64_t{100} * number(j, static_cast<std::size_t>(i), 0, seed) < limit;
    });
  }

  std::vector<std::vector<bool>> take() { return std::move(visible_); }

 private:
  static std::uint32_t number(std::int64_t x, std::size_t row, std::uint32_t purpose,
                              std::uint64_t seed) {
    const PhiloxKey key = {.low = static_cast<std::uint32_t>(seed & 0xFFFFFFFFu),
                           .high = static_cast<std::uint32_t>(seed >> 32)};
    const PhiloxCounter counter = {.x = static_cast<std::uint32_t>(x),
                                   .y = static_cast<std::uint32_t>(row),
                                   .z = purpose,
                                   .w = 0};
    return philox(counter, key).x;
  }

  std::vector<std::vector<bool>> visible_;
};

std::vector<std::vector<bool>> read_pattern(const std::string& path, std::size_t rows,
                                            std::size_t columns) {
  std::ifstream file(path);
  if (!file) throw std::invalid_argument("the oracle cannot read the pattern file '" + path + "'");
  std::vector<std::vector<bool>> pattern;
  std::string line;
  while (std::getline(file, line)) {
    std::vector<bool> row;
    for (const char c : line) {
      if (c == '0' || c == '1') {
        row.push_back(c == '1');
      } else if (c != ' ' && c != '\t' && c != '\r') {
        throw std::invalid_argument("the pattern file '" + path + "' holds a '" + c + "'");
      }
    }
    if (!row.empty()) pattern.push_back(std::move(row));
  }
  bool fits = pattern.size() == rows;
  for (const auto& row : pattern) fits = fits && row.size() == columns;
  if (!fits) {
    throw std::invalid_argument("the pattern file '" + path + "' is not " + std::to_string(rows) +
                                " rows of " + std::to_string(columns) + " blocks");
  }
  return pattern;
}

}  // namespace

std::vector<std::vector<bool>> draw_pattern(const BlocksSpec& spec, std::int64_t seqlen_q,
                                            std::int64_t seqlen_k) {
  const std::int64_t rows = (seqlen_q + spec.block_q - 1) / spec.block_q;
  const std::int64_t columns = (seqlen_k + spec.block_k - 1) / spec.block_k;
  if (spec.pattern.rfind("file=", 0) == 0) {
    return read_pattern(spec.pattern.substr(5), static_cast<std::size_t>(rows),
                        static_cast<std::size_t>(columns));
  }
  const std::vector<std::int64_t>& given = spec.arguments;
  const auto argument = [&](std::size_t index) {
    if (index < given.size()) return given[index];
    throw std::invalid_argument("block pattern '" + spec.pattern + "' lacks an argument");
  };
  const auto seed = [&](std::size_t index) {
    return index < given.size() ? static_cast<std::uint64_t>(given[index]) : 0;
  };

  Drawing drawing(rows, columns);
  if (spec.pattern == "butterfly") {
    drawing.add_butterfly();
  } else if (spec.pattern == "local") {
    drawing.add_local(argument(0));
  } else if (spec.pattern == "strided") {
    drawing.add_local(argument(0));
    drawing.add_strides(argument(1));
  } else if (spec.pattern == "longformer") {
    drawing.add_local(argument(0));
    drawing.add_global(argument(1));
  } else if (spec.pattern == "bigbird") {
    drawing.add_local(argument(0));
    drawing.add_global(argument(1));
    drawing.add_random_blocks(argument(2), seed(3));
  } else if (spec.pattern == "random") {
    drawing.add_local(0);
    drawing.add_at_random(argument(0), seed(1));
  } else {
    throw std::invalid_argument("the oracle knows no block pattern '" + spec.pattern + "'");
  }
  return drawing.take();
}

}  // namespace attnlab::reference
