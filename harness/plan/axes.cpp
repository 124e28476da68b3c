#include "harness/plan/axes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "harness/base/errors.h"
#include "harness/base/suggest.h"
#include "harness/plan/axis_values.h"
#include "kernels/api/text.h"

namespace attnlab {
namespace {

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
          if (values.size() == kMostValues) {
            throw std::invalid_argument(fmt::format("has more than {} values", kMostValues));
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

// A config axis that the sweeps' axis of the same name sets.
AxisGrammar config_grammar(const ConfigAxisRow& row) {
  const std::string name = row.help.name;
  return grammar(row.help, row.member, row.parse,
                 [name](const Case&, const Competitor& competitor) {
                   const Config& config = competitor.config;
                   return config.contains(name) ? text_of(config.get(name)) : std::string();
                 });
}

std::vector<AxisGrammar> make_axis_grammars() {
  using C = const Case&;
  using K = const Competitor&;
  std::vector<AxisGrammar> rows = {
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
      grammar({"lengths", "drawn,300+512", "keys (or queries x keys) of padded or packed entries"},
              &Axes::lengths, parse_lengths, [](C c, K) { return c.problem.lengths; }),
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
      grammar(
          {"input_kind", "normal", "normal, uniform, integers, large_logits, outlier[_channel]"},
          &Axes::input_kind,
          parse_name<InputKind, InputKind::normal, InputKind::uniform, InputKind::integers,
                     InputKind::large_logits, InputKind::outlier, InputKind::outlier_channel>,
          [](C c, K) { return c.input_kind; }),
      grammar({"seed", "7", "of the inputs, the dropout mask and drawn lengths"}, &Axes::seed,
              parse_seeds, [](C c, K) { return c.seed; }),
      grammar({"kernel", "naive,v2", "what competes (default: every kernel of the backend)"},
              &Axes::kernel, parse_kernel, [](C, K k) { return k.kernel; }),
      grammar(
          {"block", "64x64,128x128", "query rows x keys of a tile; 0x0: the kernel's own choice"},
          &Axes::block, parse_block, [](C, K k) { return block_of(k); }),
  };
  for (const ConfigAxisRow& row : config_axis_rows()) rows.push_back(config_grammar(row));
  return rows;
}

}  // namespace

const std::vector<ConfigAxisRow>& config_axis_rows() {
  static const std::vector<ConfigAxisRow> kRows = {
      {{"sram", "16384,65536", "elements of on-chip memory that tiles are cut for (v1)"},
       &Axes::sram,
       parse_sizes},
      {{"warps", "4,8", "warps of a block (v2 on a GPU); 0: the kernel's own choice"},
       &Axes::warps,
       parse_counts},
      {{"stages", "2,3", "tiles of K and V in flight (v2, v3); 0: the kernel's own choice"},
       &Axes::stages,
       parse_counts},
      {{"consumers", "2,3", "warpgroups that compute (v3 on a GPU); 0: its own choice"},
       &Axes::consumers,
       parse_counts},
      {{"producer", "0,1", "0: consumers load, no warpgroup of its own does (v3 on a GPU)"},
       &Axes::producer,
       parse_flag},
      {{"overlap", "0,1", "1: the next S is multiplied during a softmax (v3 on a GPU)"},
       &Axes::overlap,
       parse_flag},
      {{"ping_pong", "0,1", "1: consumers take turns at the tensor cores (v3 on a GPU)"},
       &Axes::ping_pong,
       parse_flag},
      {{"deterministic", "0,1", "1: backward sums dQ in a fixed order (v2, v3)"},
       &Axes::deterministic,
       parse_flag},
      {{"schedule_seed", "0,1", "interleaving of producer and consumers; 0: round robin (v3)"},
       &Axes::schedule_seed,
       parse_counts},
      {{"tf32", "0,1", "1: products of f32 round their factors to TF32 (naive on a GPU)"},
       &Axes::tf32,
       parse_flag},
  };
  return kRows;
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
  for (Axes& axes : sweep.axes) find_axis(axis, where).set(axes, text, where);
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

void check_kernel_name(const std::string& name, const Registry& registry) {
  std::vector<std::string> known = generations();
  for (const Implementation* implementation : registry.all()) {
    if (std::find(known.begin(), known.end(), implementation->name) == known.end()) {
      known.push_back(implementation->name);
    }
  }
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    const std::string best = nearest(name, known);
    throw UsageError(fmt::format("kernel: '{}' is unknown{}; there are: {}", name,
                                 best.empty() ? "" : fmt::format("; did you mean '{}'?", best),
                                 fmt::join(known, ", ")));
  }
}

}  // namespace attnlab
