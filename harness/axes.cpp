#include "harness/axes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "harness/errors.h"
#include "harness/suggest.h"
#include "kernels/api/text.h"

namespace attnlab {
namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 31;
constexpr std::size_t kMostValues = 4096;
constexpr const char* kIntegerForms = "write N, A:B:xF or A:B:+S (a suffix k is 1024)";

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// ---- Readers: one item of a comma list -> its values. They throw std::invalid_argument. ----

template <class T>
T parse_number(std::string_view text, T minimum, T maximum) {
  const std::string_view whole = text;
  const bool kilo = text.ends_with('k');
  if (kilo) text.remove_suffix(1);
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) {
    throw std::invalid_argument(
        fmt::format("'{}' is not a whole number; {}", whole, kIntegerForms));
  }
  const T unit = kilo ? 1024 : 1;
  if (error != std::errc() || value < minimum || value > maximum / unit) {
    throw std::invalid_argument(fmt::format("{} is outside [{}, {}]", whole, minimum, maximum));
  }
  return value * unit;
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
  const T step = parse_number<T>(parts[2].substr(1), kind == 'x' ? 2 : 1, maximum);
  if (first > last || (kind == 'x' && first == 0)) {
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

std::vector<std::int64_t> parse_sizes(std::string_view item) {
  return parse_range<std::int64_t>(item, 1, kLargestSize);
}

std::vector<std::uint64_t> parse_seeds(std::string_view item) {
  return parse_range<std::uint64_t>(item, 0, ~std::uint64_t{0});
}

template <class T, T... kValues>
std::vector<T> parse_name(std::string_view item) {
  for (const T value : {kValues...}) {
    if (item == to_string(value)) return {value};
  }
  throw std::invalid_argument(
      fmt::format("'{}' is unknown{}", item, suggestion(item, {to_string(kValues)...})));
}

std::vector<MaskSpec> parse_masks(std::string_view item) { return {parse_mask(item)}; }

std::vector<double> parse_probability(std::string_view item) {
  double value = 0;
  const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
  if (error != std::errc() || end != item.data() + item.size()) {
    throw std::invalid_argument(fmt::format("'{}' is not a number", item));
  }
  if (!(value >= 0.0 && value < 1.0)) {
    throw std::invalid_argument(fmt::format("{} is outside [0, 1)", item));
  }
  return {std::abs(value)};  // -0 is 0
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
  return {{parse_number<std::int64_t>(sides[0], 1, kLargestBlock),
           parse_number<std::int64_t>(sides[1], 1, kLargestBlock)}};
}

// ---- Canonical text ----

std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(std::uint64_t value) { return std::to_string(value); }
std::string text_of(double value) { return fmt::format("{}", value); }
std::string text_of(const std::string& value) { return value; }
std::string text_of(const std::pair<std::int64_t, std::int64_t>& block) {
  return fmt::format("{}x{}", block.first, block.second);
}
template <class T>
std::string text_of(const T& value) {  // enumerations and masks
  return to_string(value);
}

// ---- The rows ----

template <class T, class Parse, class ValueOf>
AxisGrammar grammar(AxisHelp help, std::vector<T> Axes::*member, Parse parse, ValueOf value_of) {
  AxisGrammar row;
  row.help = help;
  row.set = [member, parse](Axes& axes, std::string_view text, const std::string& where) {
    std::vector<T> values;
    for (const std::string_view item : split(text, ',')) {
      try {
        if (trim(item).empty()) throw std::invalid_argument("a value is missing");
        for (T& value : parse(trim(item))) {
          if (std::find(values.begin(), values.end(), value) != values.end()) {
            throw std::invalid_argument(fmt::format("{} is given twice", text_of(value)));
          }
          values.push_back(std::move(value));
        }
      } catch (const std::invalid_argument& error) {
        throw UsageError(fmt::format("{}: {}", where, error.what()));
      }
    }
    axes.*member = std::move(values);
  };
  row.values = [member](const Axes& axes) {
    std::vector<std::string> texts;
    for (const T& value : axes.*member) texts.push_back(text_of(value));
    return texts;
  };
  row.value_of = [value_of](const Case& point, const Competitor& competitor) {
    return text_of(value_of(point, competitor));
  };
  return row;
}

std::string block_of(const Competitor& competitor) {
  const Config& config = competitor.config;
  if (!config.contains("block_m") || !config.contains("block_n")) return "";
  return text_of(std::pair(config.get("block_m"), config.get("block_n")));
}

std::vector<AxisGrammar> make_axis_grammars() {
  using C = const Case&;
  using K = const Competitor&;
  return {
      grammar({"pass", "fwd,bwd,fwdbwd", "what is computed: forward, backward or both"},
              &Axes::pass, parse_name<Pass, Pass::fwd, Pass::bwd, Pass::fwdbwd>,
              [](C c, K) { return c.problem.pass; }),
      grammar({"dtype", "f32,f16,bf16", "storage type of q, k, v and o"}, &Axes::dtype,
              parse_name<Dtype, Dtype::f32, Dtype::f16, Dtype::bf16>,
              [](C c, K) { return c.problem.dtype; }),
      grammar({"layout", "bshd,bhsd,packed", "order of the dimensions of q, k, v and o in memory"},
              &Axes::layout, parse_name<Layout, Layout::bshd, Layout::bhsd, Layout::packed>,
              [](C c, K) { return c.problem.layout; }),
      grammar({"batch", "1,4", "batch entries"}, &Axes::batch, parse_sizes,
              [](C c, K) { return c.problem.batch; }),
      grammar({"heads", "8", "query heads"}, &Axes::heads, parse_sizes,
              [](C c, K) { return c.problem.num_heads_q; }),
      grammar({"heads_kv", "2", "key/value heads, a divisor of heads (default: heads)"},
              &Axes::heads_kv, parse_sizes, [](C c, K) { return c.problem.num_heads_kv; }),
      grammar({"head_dim", "64,128", "elements of one head"}, &Axes::head_dim, parse_sizes,
              [](C c, K) { return c.problem.head_dim; }),
      grammar({"mask", "none,causal", "none, or causal, window:L:R, padding, ... joined by '+'"},
              &Axes::mask, parse_masks, [](C c, K) { return c.problem.mask; }),
      grammar({"dropout", "0,0.1", "probability with which an element of P is dropped"},
              &Axes::dropout, parse_probability, [](C c, K) { return c.problem.dropout; }),
      grammar({"seqlen", "512:8192:x2", "queries and keys of an entry (default: 1024)"},
              &Axes::seqlen, parse_sizes,
              [](C c, K) {
                const Problem& problem = c.problem;
                const bool square = problem.seqlen_q == problem.seqlen_k;
                return square ? text_of(problem.seqlen_q) : std::string();
              }),
      grammar({"seqlen_q", "1,128", "queries of an entry (default: seqlen)"}, &Axes::seqlen_q,
              parse_sizes, [](C c, K) { return c.problem.seqlen_q; }),
      grammar({"seqlen_k", "1k:16k:x2", "keys of an entry (default: seqlen)"}, &Axes::seqlen_k,
              parse_sizes, [](C c, K) { return c.problem.seqlen_k; }),
      grammar({"input_kind", "normal", "normal, uniform, integers, large_logits, outlier"},
              &Axes::input_kind,
              parse_name<InputKind, InputKind::normal, InputKind::uniform, InputKind::integers,
                         InputKind::large_logits, InputKind::outlier>,
              [](C c, K) { return c.input_kind; }),
      grammar({"seed", "7", "of the inputs, the dropout mask and drawn lengths"}, &Axes::seed,
              parse_seeds, [](C c, K) { return c.seed; }),
      grammar({"kernel", "naive,v2", "what competes (default: every kernel of the backend)"},
              &Axes::kernel, parse_kernel, [](C, K k) { return k.kernel; }),
      grammar({"block", "64x64,128x128", "query rows x keys of a tile, of kernels that have tiles"},
              &Axes::block, parse_block, [](C, K k) { return block_of(k); }),
  };
}

}  // namespace

const char* to_string(InputKind kind) {
  switch (kind) {
    case InputKind::normal: return "normal";
    case InputKind::uniform: return "uniform";
    case InputKind::integers: return "integers";
    case InputKind::large_logits: return "large_logits";
    case InputKind::outlier: return "outlier";
  }
  return "?";
}

const std::vector<AxisGrammar>& axis_grammars() {
  static const std::vector<AxisGrammar> kRows = make_axis_grammars();
  return kRows;
}

const AxisGrammar& find_axis(std::string_view name, std::string_view where) {
  std::vector<std::string> names;
  for (const AxisGrammar& row : axis_grammars()) {
    if (name == row.help.name) return row;
    names.push_back(row.help.name);
  }
  throw UsageError(fmt::format("{}: unknown axis '{}'{}", where, name, suggestion(name, names)));
}

const std::vector<AxisHelp>& axis_help() {
  static const std::vector<AxisHelp> kHelp = [] {
    std::vector<AxisHelp> help;
    for (const AxisGrammar& row : axis_grammars()) help.push_back(row.help);
    return help;
  }();
  return kHelp;
}

void set_axis(Sweep& sweep, std::string_view axis, std::string_view text,
              const std::string& where) {
  find_axis(axis, where).set(sweep.axes, text, where);
}

BackendChoice parse_backend(std::string_view text, const std::string& where) {
  if (text == "auto") return BackendChoice::automatic;
  if (text == "cpu") return BackendChoice::cpu;
  if (text == "cuda") return BackendChoice::cuda;
  throw UsageError(fmt::format("{}: '{}' is not a backend{}", where, text,
                               suggestion(text, {"auto", "cpu", "cuda"})));
}

const std::vector<std::string>& generations() {
  static const std::vector<std::string> kNames = {"naive", "minimal", "v1", "v2", "v3"};
  return kNames;
}

}  // namespace attnlab
