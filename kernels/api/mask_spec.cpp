#include "kernels/api/mask_spec.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "kernels/api/malformed_pattern.h"
#include "kernels/api/text.h"
#include "kernels/shared/base.h"
#include "kernels/shared/philox.h"

namespace attnlab {
namespace {

constexpr const char* kForms =
    "a mask is none, or parts joined by '+': causal, window:LEFT:RIGHT (-1 is unbounded), "
    "padding[:MIN_KEYS], blocks:PATTERN[:ARGS]:BQxBK";

[[noreturn]] void fail(std::string_view part, const std::string& why) {
  throw std::invalid_argument("mask '" + std::string(part) + "': " + why + "; " + kForms);
}

std::int64_t parse_integer(std::string_view part, std::string_view text, std::int64_t minimum) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) {
    fail(part, "'" + std::string(text) + "' is not a whole number");
  }
  if (error != std::errc() || value < minimum || value > (std::int64_t{1} << 40)) {
    fail(part, "'" + std::string(text) + "' is out of range");
  }
  return value;
}

// Says whether one block is visible; blocks_k and the arguments are the pattern's.
struct PatternRule {
  const char* name;
  std::size_t arguments;           // that must be there
  std::size_t optional_arguments;  // that may follow
  const char* form;
  bool (*visible)(const std::vector<i64>& arguments, i64 i, i64 j, i64 blocks_k);
};

u32 random_number(u64 seed, i64 x, i64 row, u32 purpose) {
  return philox({.x = static_cast<u32>(x), .y = static_cast<u32>(row), .z = purpose},
                philox_key(seed))
      .x;
}

u64 seed_argument(const std::vector<i64>& arguments, std::size_t index) {
  return arguments.size() > index ? static_cast<u64>(arguments[index]) : 0;
}

bool is_local(i64 i, i64 j, i64 width) { return i - j <= width && j - i <= width; }

bool is_butterfly(const std::vector<i64>& /*arguments*/, i64 i, i64 j, i64 /*blocks_k*/) {
  const i64 difference = i ^ j;
  return (difference & (difference - 1)) == 0;  // at most one bit
}

bool is_in_window(const std::vector<i64>& arguments, i64 i, i64 j, i64 /*blocks_k*/) {
  return is_local(i, j, arguments[0]);
}

bool is_strided(const std::vector<i64>& arguments, i64 i, i64 j, i64 /*blocks_k*/) {
  return is_local(i, j, arguments[0]) || (i - j) % arguments[1] == 0;
}

bool is_longformer(const std::vector<i64>& arguments, i64 i, i64 j, i64 /*blocks_k*/) {
  const i64 global = arguments[1];
  return is_local(i, j, arguments[0]) || i < global || j < global;
}

bool is_bigbird(const std::vector<i64>& arguments, i64 i, i64 j, i64 blocks_k) {
  if (is_longformer(arguments, i, j, blocks_k)) return true;
  constexpr u32 kPurpose = 1;
  for (i64 draw = 0; draw < arguments[2]; ++draw) {
    if (random_number(seed_argument(arguments, 3), draw, i, kPurpose) % blocks_k == j) return true;
  }
  return false;
}

bool is_random(const std::vector<i64>& arguments, i64 i, i64 j, i64 /*blocks_k*/) {
  constexpr u32 kPurpose = 0;
  const u64 number = random_number(seed_argument(arguments, 1), j, i, kPurpose);
  return i == j || 100 * number < static_cast<u64>(arguments[0]) << 32;
}

constexpr PatternRule kPatterns[] = {
    {"butterfly", 0, 0, "butterfly", is_butterfly},
    {"local", 1, 0, "local:WIDTH", is_in_window},
    {"strided", 2, 0, "strided:WIDTH:STRIDE", is_strided},
    {"longformer", 2, 0, "longformer:WIDTH:GLOBAL", is_longformer},
    {"bigbird", 3, 1, "bigbird:WIDTH:GLOBAL:RANDOM[:SEED]", is_bigbird},
    {"random", 1, 1, "random:PERCENT[:SEED]", is_random},
};

const PatternRule* find_pattern(std::string_view name) {
  for (const PatternRule& rule : kPatterns) {
    if (name == rule.name) return &rule;
  }
  return nullptr;
}

constexpr std::string_view kFilePrefix = "file=";

bool is_file(const BlocksSpec& spec) { return spec.pattern.starts_with(kFilePrefix); }

// Returns what is wrong with the name and its arguments; a file is not looked at.
std::string malformed_rule(const BlocksSpec& spec) {
  if (is_file(spec)) {
    return spec.arguments.empty() ? "" : "block pattern 'file=PATH' takes no arguments";
  }
  const PatternRule* rule = find_pattern(spec.pattern);
  if (rule == nullptr) {
    std::string forms;
    for (const PatternRule& known : kPatterns) forms += std::string(known.form) + ", ";
    return "block pattern '" + spec.pattern + "' does not exist; there are: " + forms + "file=PATH";
  }
  const std::string name = "block pattern '" + spec.pattern + "' ";
  const std::size_t given = spec.arguments.size();
  if (given < rule->arguments || given > rule->arguments + rule->optional_arguments) {
    return name + "is written " + rule->form;
  }
  if (spec.pattern == "strided" && spec.arguments[1] == 0) return name + "needs a STRIDE above 0";
  if (spec.pattern == "random" && spec.arguments[0] > 100) {
    return name + "needs a PERCENT up to 100";
  }
  return "";
}

// PatternFile has the rows of a file, or why there are none.
struct PatternFile {
  std::vector<std::vector<std::uint8_t>> rows;  // of equal lengths
  std::string error;
};

PatternFile read_pattern_file(const BlocksSpec& spec) {
  const std::string path = spec.pattern.substr(kFilePrefix.size());
  const std::string name = "block pattern file '" + path + "' ";
  std::error_code error;
  std::ifstream file(path);
  if (!file || !std::filesystem::is_regular_file(path, error)) {
    return {.rows = {}, .error = name + "cannot be read as a file"};
  }
  PatternFile pattern;
  for (std::string line; std::getline(file, line);) {
    std::erase_if(line, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
    if (line.empty()) continue;
    const std::string row = name + "line " + std::to_string(pattern.rows.size() + 1) + " ";
    std::vector<std::uint8_t>& blocks = pattern.rows.emplace_back();
    for (const char c : line) {
      if (c != '0' && c != '1')
        return {.rows = {}, .error = row + "has a character that is not 0 or 1"};
      blocks.push_back(c == '1' ? 1 : 0);
    }
    if (const std::size_t first = pattern.rows.front().size(); blocks.size() != first) {
      return {.rows = {},
              .error = row + "has " + std::to_string(blocks.size()) + " blocks, line 1 has " +
                       std::to_string(first)};
    }
  }
  if (pattern.rows.empty()) pattern.error = name + "holds no blocks: write lines of 0 and 1";
  return pattern;
}

// PatternBytes has a pattern's bytes, or why there are none.
struct PatternBytes {
  std::vector<std::uint8_t> visible;
  std::string error;
};

PatternBytes fit_pattern_file(const BlocksSpec& spec, i64 blocks_q, i64 blocks_k) {
  const PatternFile file = read_pattern_file(spec);
  if (!file.error.empty()) return {.visible = {}, .error = file.error};
  const auto rows = static_cast<i64>(file.rows.size());
  const auto columns = static_cast<i64>(file.rows.front().size());
  if (rows != blocks_q || columns != blocks_k) {
    return {.visible = {},
            .error = "block pattern file '" + spec.pattern.substr(kFilePrefix.size()) + "' has " +
                     std::to_string(rows) + " rows of " + std::to_string(columns) + " blocks; " +
                     std::to_string(blocks_q) + " of " + std::to_string(blocks_k) +
                     " are needed for these lengths and block sizes"};
  }
  PatternBytes pattern;
  for (const std::vector<std::uint8_t>& row : file.rows) {
    pattern.visible.insert(pattern.visible.end(), row.begin(), row.end());
  }
  return pattern;
}

std::string unsupported_named(const BlocksSpec& spec, i64 seqlen_q, i64 seqlen_k) {
  std::string reason = malformed_rule(spec);
  if (reason.empty() && seqlen_q != seqlen_k) {
    reason = "block pattern '" + spec.pattern + "' needs seqlen_q = seqlen_k";
  }
  return reason;
}

PatternBytes make_pattern(const BlocksSpec& spec, i64 seqlen_q, i64 seqlen_k) {
  const i64 blocks_q = ceil_div<i64>(seqlen_q, spec.block_q);
  const i64 blocks_k = ceil_div<i64>(seqlen_k, spec.block_k);
  if (is_file(spec)) {
    const std::string error = malformed_rule(spec);
    return error.empty() ? fit_pattern_file(spec, blocks_q, blocks_k)
                         : PatternBytes{.visible = {}, .error = error};
  }
  if (std::string error = unsupported_named(spec, seqlen_q, seqlen_k); !error.empty()) {
    return {.visible = {}, .error = error};
  }
  PatternBytes pattern;
  const PatternRule& rule = *find_pattern(spec.pattern);
  for (i64 i = 0; i < blocks_q; ++i) {
    for (i64 j = 0; j < blocks_k; ++j) {
      pattern.visible.push_back(rule.visible(spec.arguments, i, j, blocks_k) ? 1 : 0);
    }
  }
  return pattern;
}

BlocksSpec parse_blocks(std::string_view part, const std::vector<std::string_view>& fields) {
  if (fields.size() < 3) fail(part, "needs a pattern and a block size");
  BlocksSpec blocks;
  blocks.pattern = fields[1];
  if (blocks.pattern.empty()) fail(part, "the pattern's name is missing");
  for (std::size_t i = 2; i + 1 < fields.size(); ++i) {
    blocks.arguments.push_back(parse_integer(part, fields[i], 0));
  }
  const auto sizes = split(fields.back(), 'x');
  if (sizes.size() != 2) fail(part, "the last field is the block size, like 128x128");
  constexpr std::int64_t kLargestBlock = 1 << 20;
  const std::int64_t block_q = parse_integer(part, sizes[0], 1);
  const std::int64_t block_k = parse_integer(part, sizes[1], 1);
  if (block_q > kLargestBlock || block_k > kLargestBlock) fail(part, "the block size is too large");
  blocks.block_q = static_cast<int>(block_q);
  blocks.block_k = static_cast<int>(block_k);
  if (const std::string why = malformed_rule(blocks); !why.empty()) fail(part, why);
  return blocks;
}

}  // namespace

std::int64_t MaskSpec::right() const {
  const std::int64_t bound = window ? window->right : -1;
  if (!causal) return bound;
  return 0;  // the tighter of 0 and any window's right bound, which is -1 or >= 0
}

MaskSpec parse_mask(std::string_view text) {
  MaskSpec mask;
  if (text == "none") return mask;
  for (std::string_view part : split(text, '+')) {
    const auto fields = split(part, ':');
    if (fields[0] == "causal" && fields.size() == 1) {
      if (mask.causal) fail(part, "is given twice");
      mask.causal = true;
    } else if (fields[0] == "window" && fields.size() == 3) {
      if (mask.window) fail(part, "is given twice");
      mask.window = {.left = parse_integer(part, fields[1], -1),
                     .right = parse_integer(part, fields[2], -1)};
    } else if (fields[0] == "padding" && fields.size() <= 2) {
      if (mask.padding) fail(part, "is given twice");
      mask.padding.emplace();
      if (fields.size() == 2) mask.padding->minimum = parse_integer(part, fields[1], 0);
    } else if (fields[0] == "blocks") {
      if (mask.blocks) fail(part, "is given twice");
      mask.blocks = parse_blocks(part, fields);
    } else {
      fail(part, "is not a mask");
    }
  }
  return mask;
}

std::string to_string(const MaskSpec& mask) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "+") + part; };
  if (mask.causal) add("causal");
  if (mask.window) {
    add("window:" + std::to_string(mask.window->left) + ":" + std::to_string(mask.window->right));
  }
  if (mask.padding) {
    const std::int64_t minimum = mask.padding->minimum;
    add(minimum < 0 ? "padding" : "padding:" + std::to_string(minimum));
  }
  if (mask.blocks) {
    std::string part = "blocks:" + mask.blocks->pattern;
    for (std::int64_t argument : mask.blocks->arguments) part += ":" + std::to_string(argument);
    part += ":" + std::to_string(mask.blocks->block_q) + "x" + std::to_string(mask.blocks->block_k);
    add(part);
  }
  return text.empty() ? "none" : text;
}

std::string malformed_pattern(const BlocksSpec& spec) {
  std::string reason = malformed_rule(spec);
  return reason.empty() && is_file(spec) ? read_pattern_file(spec).error : reason;
}

std::string unsupported_pattern(const BlocksSpec& spec, std::int64_t seqlen_q,
                                std::int64_t seqlen_k) {
  if (is_file(spec)) return make_pattern(spec, seqlen_q, seqlen_k).error;
  return unsupported_named(spec, seqlen_q, seqlen_k);
}

std::vector<std::uint8_t> visible_blocks(const BlocksSpec& spec, std::int64_t seqlen_q,
                                         std::int64_t seqlen_k) {
  PatternBytes pattern = make_pattern(spec, seqlen_q, seqlen_k);
  if (!pattern.error.empty()) throw std::invalid_argument(pattern.error);
  return std::move(pattern.visible);
}

}  // namespace attnlab
