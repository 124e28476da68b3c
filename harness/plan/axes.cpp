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

// Reads a comma list; `parse` makes one or several values of each item.
template <class T>
std::vector<T> parse_list(std::string_view text, const std::string& where, const auto& parse) {
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
  return values;
}

template <class T>
std::vector<std::string> texts_of(const std::vector<T>& values) {
  std::vector<std::string> texts;
  for (const T& value : values) texts.push_back(text_of(value));
  return texts;
}

template <class T, class Parse, class ValueOf>
AxisGrammar grammar(AxisHelp help, std::vector<T> Axes::*member, Parse parse, ValueOf value_of) {
  AxisGrammar row;
  row.help = std::move(help);
  row.set = [member, parse](Axes& axes, std::string_view text, const std::string& where) {
    axes.*member = parse_list<T>(text, where, parse);
  };
  row.values = [member](const Axes& axes) { return texts_of(axes.*member); };
  row.value_of = [value_of](const Case& work, const Competitor& competitor) {
    return text_of(value_of(work, competitor));
  };
  return row;
}

std::string block_of(const Competitor& competitor) {
  const Config& config = competitor.config;
  if (!config.contains("block_m") || !config.contains("block_n")) return "";
  return text_of(std::pair(config.get("block_m"), config.get("block_n")));
}

// Makes the row of an axis of kernels' configs, which sweeps set under its own name.
AxisGrammar config_grammar(const SharedAxis& axis) {
  const std::string name = axis.help.name;
  AxisGrammar row;
  row.help = axis.help;
  row.set = [axis](Axes& axes, std::string_view text, const std::string& where) {
    axes.config[axis.help.name] = parse_list<std::int64_t>(text, where, [&](std::string_view item) {
      return parse_whole(item, axis.minimum, axis.maximum);
    });
  };
  row.values = [name](const Axes& axes) {
    const auto found = axes.config.find(name);
    return found == axes.config.end() ? std::vector<std::string>() : texts_of(found->second);
  };
  row.value_of = [name](const Case&, const Competitor& competitor) {
    const Config& config = competitor.config;
    return config.contains(name) ? text_of(config.get(name)) : std::string();
  };
  return row;
}

// Returns the text for e4m3 only: other dtypes have no quantisation.
std::string of_e4m3(const Problem& problem, const char* text) {
  return problem.is_e4m3() ? text : "";
}

std::vector<AxisGrammar> problem_grammars() {
  using C = const Case&;
  using K = const Competitor&;
  return {
      grammar({"pass", "fwd,bwd,fwdbwd", "what is computed: forward, backward or both"},
              &Axes::pass, parse_name<Pass, Pass::fwd, Pass::bwd, Pass::fwdbwd>,
              [](C c, K) { return c.problem.pass; }),
      grammar({"dtype", "f32,f16,bf16,e4m3", "storage type of q, k, v and o (of e4m3: f16)"},
              &Axes::dtype, parse_name<Dtype, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3>,
              [](C c, K) { return c.problem.dtype; }),
      grammar({"layout", "bshd,bhsd,packed", "order of the dimensions of q, k, v and o in memory"},
              &Axes::layout, parse_name<Layout, Layout::bshd, Layout::bhsd, Layout::packed>,
              [](C c, K) { return c.problem.layout; }),
      grammar(
          {"quant", "tensor,head,block", "of e4m3: what shares a scale of q and k (default block)"},
          &Axes::quant, parse_name<ScaleOf, ScaleOf::tensor, ScaleOf::head, ScaleOf::block>,
          [](C c, K) { return of_e4m3(c.problem, to_string(c.problem.quantisation.qk)); }),
      grammar(
          {"quant_v", "head,block,channel", "of e4m3: what shares a scale of v (default channel)"},
          &Axes::quant_v,
          parse_name<ScaleOf, ScaleOf::tensor, ScaleOf::head, ScaleOf::block, ScaleOf::channel>,
          [](C c, K) { return of_e4m3(c.problem, to_string(c.problem.quantisation.v)); }),
      grammar(
          {"rotate", "0,1", "of e4m3: 1: random signs and Walsh-Hadamard on q and k (default)"},
          &Axes::rotate, [](std::string_view item) { return parse_whole(item, 0, 1); },
          [](C c, K) { return of_e4m3(c.problem, c.problem.quantisation.rotate ? "1" : "0"); }),
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
      grammar({"softmax_scale", "0.05,1", "factor of the scores; 0: 1 / sqrt(head_dim) (default)"},
              &Axes::softmax_scale, parse_scale, [](C c, K) { return c.problem.softmax_scale; }),
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
      grammar({"input_kind", "normal",
               "normal, uniform, integers, large_logits, outlier[_channel], v_one, ..."},
              &Axes::input_kind,
              parse_name<InputKind, InputKind::normal, InputKind::uniform, InputKind::integers,
                         InputKind::large_logits, InputKind::outlier, InputKind::outlier_channel,
                         InputKind::v_one, InputKind::v_mean_one, InputKind::sink>,
              [](C c, K) { return c.input_kind; }),
      grammar({"seed", "7", "of the inputs, the dropout mask and drawn lengths"}, &Axes::seed,
              parse_seeds, [](C c, K) { return c.seed; }),
      grammar({"kernel", "naive,v2", "what competes (default: every kernel of the backend)"},
              &Axes::kernel, parse_kernel, [](C, K k) { return k.kernel; }),
      grammar(
          {"block", "64x64,128x128", "query rows x keys of a tile; 0x0: the kernel's own choice"},
          &Axes::block, parse_block, [](C, K k) { return block_of(k); }),
  };
}

// Returns the registered kernels, those for GPUs first.
std::vector<const Implementation*> gpu_first(const Registry& registry) {
  std::vector<const Implementation*> kernels(registry.all().begin(), registry.all().end());
  std::stable_partition(kernels.begin(), kernels.end(), [](const Implementation* kernel) {
    return kernel->backend == Backend::cuda;
  });
  return kernels;
}

// Returns the kernels that declare the axis, like "v2, v3 on a CPU".
std::string owners_of(std::string_view axis, const Registry& registry) {
  std::vector<std::string> owners;
  for (const std::string& name : kernel_names(registry)) {
    const auto has_it = [&](Backend backend) {
      const Implementation* const kernel = registry.find(name, backend);
      return kernel != nullptr && find_axis(*kernel, axis) != nullptr;
    };
    const bool on_cpu = has_it(Backend::cpu);
    const bool on_gpu = has_it(Backend::cuda);
    if (!on_cpu && !on_gpu) continue;
    owners.push_back(name + (on_cpu && on_gpu ? "" : on_gpu ? " on a GPU" : " on a CPU"));
  }
  return fmt::format("{}", fmt::join(owners, ", "));
}

// Returns a list that the axis takes: what tuning tries, else its whole range where that is short,
// else the default and a larger value.
std::string example_of(const ConfigAxis& axis) {
  constexpr std::int64_t kShort = 4;
  std::vector<std::int64_t> values(axis.tried.begin(), axis.tried.end());
  if (values.empty() && axis.maximum - axis.minimum < kShort) {
    for (std::int64_t value = std::max<std::int64_t>(axis.minimum, 0); value <= axis.maximum;
         ++value) {
      values.push_back(value);
    }
  }
  if (values.empty()) {
    values = {axis.default_value};
    const std::int64_t other = std::min<std::int64_t>(axis.maximum, 1024);
    if (other > axis.default_value) values.push_back(other);
  }
  return fmt::format("{}", fmt::join(values, ","));
}

}  // namespace

std::vector<SharedAxis> shared_axes(const Registry& registry) {
  std::vector<SharedAxis> shared;
  for (const Implementation* kernel : gpu_first(registry)) {
    for (const ConfigAxis& axis : axes_of(*kernel)) {
      const std::string name = axis.name;
      if (is_block_axis(name)) continue;
      const auto known = std::ranges::find(
          shared, name, [](const SharedAxis& s) -> const auto& { return s.help.name; });
      if (known != shared.end()) {
        known->minimum = std::min(known->minimum, axis.minimum);
        known->maximum = std::max(known->maximum, axis.maximum);
        continue;
      }
      const std::string summary = fmt::format("{} ({})", axis.summary, owners_of(name, registry));
      shared.push_back({.help = {name, example_of(axis), summary},
                        .minimum = axis.minimum,
                        .maximum = axis.maximum});
    }
  }
  return shared;
}

AxisGrammars::AxisGrammars(const Registry& registry) : rows_(problem_grammars()) {
  for (const SharedAxis& axis : shared_axes(registry)) {
    const std::string& name = axis.help.name;
    if (std::ranges::any_of(rows_, [&](const AxisGrammar& row) { return row.help.name == name; })) {
      throw std::invalid_argument(fmt::format(
          "an axis of a kernel's config is called '{}' like one of the problem: rename it", name));
    }
    rows_.push_back(config_grammar(axis));
  }
}

const AxisGrammar& AxisGrammars::find(std::string_view name, std::string_view where) const {
  std::vector<std::string> names;
  for (const AxisGrammar& row : rows_) {
    if (name == row.help.name) return row;
    names.push_back(row.help.name);
  }
  throw UsageError(fmt::format("{}: unknown axis '{}'{}", where, name, suggestion(name, names)));
}

void AxisGrammars::set(Sweep& sweep, std::string_view axis, std::string_view text,
                       const std::string& where) const {
  for (Axes& axes : sweep.axes) find(axis, where).set(axes, text, where);
}

std::string flag_of(std::string_view axis) {
  std::string flag = "--" + std::string(axis);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

BackendChoice parse_backend(std::string_view text, const std::string& where) {
  if (text == "auto") return BackendChoice::automatic;
  if (text == "cpu") return BackendChoice::cpu;
  if (text == "cuda") return BackendChoice::cuda;
  throw UsageError(fmt::format("{}: '{}' is not a backend{}", where, text,
                               suggestion(text, {"auto", "cpu", "cuda"})));
}

std::vector<std::string> kernel_names(const Registry& registry) {
  std::vector<std::string> names;
  for (const Implementation* kernel : registry.all()) {
    if (std::ranges::find(names, kernel->name) == names.end()) names.emplace_back(kernel->name);
  }
  return names;
}

void check_kernel_name(const std::string& name, const Registry& registry) {
  const std::vector<std::string> known = kernel_names(registry);
  if (std::ranges::find(known, name) != known.end()) return;
  const std::string best = nearest(name, known);
  throw UsageError(fmt::format("kernel: '{}' is unknown{}; there are: {}", name,
                               best.empty() ? "" : fmt::format("; did you mean '{}'?", best),
                               fmt::join(known, ", ")));
}

}  // namespace attnlab
