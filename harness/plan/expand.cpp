#include "harness/plan/expand.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>

#include "harness/base/errors.h"
#include "harness/base/suggest.h"
#include "harness/plan/axes.h"
#include "harness/plan/axis_values.h"
#include "harness/plan/lengths.h"
#include "harness/plan/peer_names.h"
#include "harness/plan/unsupported.h"
#include "kernels/api/malformed_pattern.h"

namespace attnlab {
namespace {

constexpr std::size_t kMostCases = 100'000;

// Replaces every case by one case for each value; `member` says which part of the case it sets.
template <class T, class Member>
void multiply(std::vector<Case>& cases, const std::vector<T>& values, Member member) {
  if (cases.size() * values.size() > kMostCases) {
    throw UsageError(fmt::format("the axes have a product above {} cases", kMostCases));
  }
  std::vector<Case> product;
  product.reserve(cases.size() * values.size());
  for (const Case& base : cases) {
    for (const T& value : values) {
      product.push_back(base);
      member(product.back()) = value;
    }
  }
  cases = std::move(product);
}

// Replaces every e4m3 case by one case for each value; cases of other dtypes stay as they are.
template <class T, class Set>
void multiply_e4m3(std::vector<Case>& cases, const std::vector<T>& values, Set set) {
  if (values.empty()) return;
  std::vector<Case> product;
  for (const Case& base : cases) {
    if (!base.problem.is_e4m3()) product.push_back(base);
    if (!base.problem.is_e4m3()) continue;
    for (const T& value : values) {
      product.push_back(base);
      set(product.back().problem.quantisation, value);
    }
  }
  cases = std::move(product);
}

// Returns the problems in the order of the axes, without lengths and competitors.
std::vector<Case> multiply_axes(const Axes& axes) {
  std::vector<Case> cases(1);
  multiply(cases, axes.pass, [](Case& c) -> Pass& { return c.problem.pass; });
  multiply(cases, axes.dtype, [](Case& c) -> Dtype& { return c.problem.dtype; });
  multiply(cases, axes.layout, [](Case& c) -> Layout& { return c.problem.layout; });
  multiply_e4m3(cases, axes.quant, [](Quantisation& how, ScaleOf value) { how.qk = value; });
  multiply_e4m3(cases, axes.quant_v, [](Quantisation& how, ScaleOf value) { how.v = value; });
  multiply_e4m3(cases, axes.rotate,
                [](Quantisation& how, std::int64_t value) { how.rotate = value != 0; });
  multiply(
      cases, axes.batch, [](Case & c) -> auto& { return c.problem.batch; });
  multiply(
      cases, axes.heads, [](Case & c) -> auto& { return c.problem.num_heads_q; });
  if (axes.heads_kv.empty()) {
    for (Case& c : cases) c.problem.num_heads_kv = c.problem.num_heads_q;
  } else {
    multiply(
        cases, axes.heads_kv, [](Case & c) -> auto& { return c.problem.num_heads_kv; });
  }
  multiply(
      cases, axes.head_dim, [](Case & c) -> auto& { return c.problem.head_dim; });
  multiply(
      cases, axes.mask, [](Case & c) -> auto& { return c.problem.mask; });
  multiply(
      cases, axes.lengths, [](Case & c) -> auto& { return c.problem.lengths; });
  multiply(
      cases, axes.dropout, [](Case & c) -> auto& { return c.problem.dropout; });
  multiply(
      cases, axes.softmax_scale, [](Case & c) -> auto& { return c.problem.softmax_scale; });
  if (axes.seqlen_q.empty() || axes.seqlen_k.empty()) {
    const std::vector<std::int64_t> default_seqlen = {1024};
    multiply(
        cases, axes.seqlen.empty() ? default_seqlen : axes.seqlen,
        [](Case & c) -> auto& { return c.problem.seqlen_k; });
    for (Case& c : cases) c.problem.seqlen_q = c.problem.seqlen_k;
  } else if (!axes.seqlen.empty()) {
    throw UsageError("axis seqlen has no effect where both seqlen_q and seqlen_k are given");
  }
  if (!axes.seqlen_q.empty()) {
    multiply(
        cases, axes.seqlen_q, [](Case & c) -> auto& { return c.problem.seqlen_q; });
  }
  if (!axes.seqlen_k.empty()) {
    multiply(
        cases, axes.seqlen_k, [](Case & c) -> auto& { return c.problem.seqlen_k; });
  }
  multiply(
      cases, axes.input_kind, [](Case & c) -> auto& { return c.input_kind; });
  multiply(
      cases, axes.seed, [](Case & c) -> auto& { return c.seed; });
  for (Case& c : cases) c.problem.seed = c.seed;
  return cases;
}

// Puts the text of a Problem's invalid() in the words of the axes.
std::string in_words_of_axes(std::string reason) {
  const std::pair<std::string, std::string> words[] = {{"num_heads_q", "heads"},
                                                       {"num_heads_kv", "heads_kv"}};
  for (const auto& [field, axis] : words) {
    for (std::size_t at = reason.find(field); at != std::string::npos; at = reason.find(field)) {
      reason.replace(at, field.size(), axis);
    }
  }
  return reason;
}

std::vector<std::string> kernels_of(const Registry& registry, Backend backend) {
  std::vector<std::string> names;
  for (const Implementation* implementation : registry.all()) {
    if (implementation->backend == backend) names.push_back(implementation->name);
  }
  return names;
}

// Returns the different configs that come out of `base` when each of `values` is set.
template <class T, class Set>
std::vector<Config> multiply_configs(const std::vector<Config>& base, const std::vector<T>& values,
                                     Set set) {
  if (values.empty()) return base;
  std::vector<Config> configs;
  for (const Config& config : base) {
    for (const T& value : values) {
      Config changed = config;
      set(changed, value);
      if (std::find(configs.begin(), configs.end(), changed) == configs.end()) {
        configs.push_back(changed);
      }
    }
  }
  return configs;
}

// Returns every config that the axes ask of a kernel. Only what the kernel declares is set, so that
// one without stages runs once and not once for each number of stages.
std::vector<Config> make_configs(const Axes& axes, const Implementation& implementation) {
  const auto set_declared = [](Config& config, const std::string& name, std::int64_t value) {
    if (config.contains(name)) config.set(name, value);
  };
  std::vector<Config> configs = multiply_configs({default_config(implementation)}, axes.block,
                                                 [&](Config& config, const auto& block) {
                                                   set_declared(config, "block_m", block.first);
                                                   set_declared(config, "block_n", block.second);
                                                 });
  for (const ConfigAxis& axis : axes_of(implementation)) {
    const auto given = axes.config.find(axis.name);
    if (given == axes.config.end()) continue;
    configs = multiply_configs(configs, given->second, [&](Config& config, std::int64_t value) {
      config.set(axis.name, value);
    });
  }
  return configs;
}

bool is_given(const Axes& axes, std::string_view name) {
  return is_block_axis(name) ? !axes.block.empty() : axes.config.contains(name);
}

// Returns whether the axes leave a value to the kernel: they don't name it, or say 0 or -1.
bool is_open(const Axes& axes, const ConfigAxis& axis, std::int64_t value) {
  return value == axis.default_value && (value <= 0 || !is_given(axes, axis.name));
}

// Returns the configs that tuning tries: what `configs` leave open takes each value that the kernel
// wants tried, in all combinations.
std::vector<Config> add_tried(std::vector<Config> configs, const Axes& axes,
                              const Implementation& implementation) {
  for (const ConfigAxis& axis : axes_of(implementation)) {
    if (axis.tried.empty()) continue;
    std::vector<Config> more;
    for (const Config& config : configs) {
      const std::vector<std::int64_t> own = {config.get(axis.name)};
      const bool open = is_open(axes, axis, own.front());
      for (const std::int64_t value : open ? axis.tried : std::span<const std::int64_t>(own)) {
        more.push_back(config);
        more.back().set(axis.name, value);
      }
    }
    configs = std::move(more);
  }
  return configs;
}

// Throws where no kernel that has these axes takes the values on any problem.
void refuse_impossible(const std::string& what, const Config& values,
                       const std::vector<const Implementation*>& kernels) {
  std::string first_reason;
  for (const Implementation* kernel : kernels) {
    const Config declared = default_config(*kernel);
    const bool has_them = std::ranges::all_of(
        values.values(), [&](const auto& value) { return declared.contains(value.first); });
    if (!has_them) continue;
    const std::string reason = invalid(values, *kernel);
    if (reason.empty()) return;
    if (first_reason.empty()) first_reason = reason;
  }
  if (!first_reason.empty()) throw UsageError(fmt::format("{}: {}", what, first_reason));
}

// Throws for values of axes that are wrong whatever the problem.
void check_axes(const Axes& axes, const std::vector<const Implementation*>& kernels) {
  for (const MaskSpec& mask : axes.mask) {
    const std::string reason = mask.blocks ? malformed_pattern(*mask.blocks) : "";
    if (!reason.empty()) throw UsageError(fmt::format("mask '{}': {}", to_string(mask), reason));
  }
  for (const auto& [block_m, block_n] : axes.block) {
    refuse_impossible(fmt::format("block {}x{}", block_m, block_n),
                      {{"block_m", block_m}, {"block_n", block_n}}, kernels);
  }
  for (const auto& [name, given] : axes.config) {
    for (const std::int64_t value : given) {
      refuse_impossible(fmt::format("{} {}", name, value), {{name, value}}, kernels);
    }
  }
}

// Returns all that might compete, whatever the problem.
std::vector<Competitor> make_competitors(const Axes& axes, bool tune, const Registry& registry,
                                         const Device& device) {
  const std::vector<std::string> available = kernels_of(registry, device.backend);
  std::vector<std::string> names = axes.kernel;
  if (names.empty()) names = available.empty() ? kernel_names(registry) : available;
  std::vector<const Implementation*> kernels;
  for (const std::string& name : names) {
    check_kernel_name(name, registry);
    const Implementation* kernel = registry.find(name, device.backend);
    if (kernel != nullptr) kernels.push_back(kernel);
  }
  check_axes(axes, kernels);
  std::vector<Competitor> competitors;
  for (const std::string& name : names) {
    Competitor competitor{.kernel = name, .backend = device.backend};
    competitor.implementation = registry.find(name, device.backend);
    if (competitor.implementation == nullptr) {
      competitor.unsupported =
          available.empty()
              ? fmt::format("there are no kernels on backend {}", to_string(device.backend))
              : fmt::format("no kernel '{}' on backend {}; there are: {}", name,
                            to_string(device.backend), fmt::join(available, ", "));
      competitors.push_back(competitor);
      continue;
    }
    const std::vector<Config> configs = make_configs(axes, *competitor.implementation);
    for (const Config& config : configs) {
      competitor.config = config;
      competitors.push_back(competitor);
    }
    if (!tune) continue;
    competitor.tried = true;
    for (const Config& config : add_tried(configs, axes, *competitor.implementation)) {
      competitor.config = config;
      competitors.push_back(competitor);
    }
  }
  return competitors;
}

// Adds those of `more` that are not in the list yet.
void add_competitors(std::vector<Competitor>& competitors, const std::vector<Competitor>& more) {
  for (const Competitor& other : more) {
    const bool is_there =
        std::any_of(competitors.begin(), competitors.end(), [&](const Competitor& competitor) {
          return competitor.kernel == other.kernel && competitor.config == other.config;
        });
    if (!is_there) competitors.push_back(other);
  }
}

// Checks competitors against this problem. A config that leaves values open becomes the one that
// runs, so that two ways to ask for it are one competitor.
std::vector<Competitor> put_to(const Problem& problem, std::vector<Competitor> competitors,
                               const Device& device) {
  for (Competitor& competitor : competitors) {
    if (competitor.implementation == nullptr) continue;
    const Implementation& kernel = *competitor.implementation;
    competitor.unsupported = why_unsupported(kernel, competitor.config, problem, device);
    if (!competitor.unsupported.empty()) continue;
    const Config filled = resolved(kernel, problem, competitor.config, device);
    if (filled != competitor.config) competitor.asked = std::exchange(competitor.config, filled);
  }
  // A config that was only to be tried is dropped where it is unsupported: nobody asked for it.
  std::erase_if(competitors, [](const Competitor& competitor) {
    return competitor.tried && !competitor.unsupported.empty();
  });
  std::vector<Competitor> different;
  add_competitors(different, competitors);
  return different;
}

bool matches(const Exclusion& exclusion, const AxisGrammars& grammars, const Case& work,
             const Competitor& competitor) {
  return std::all_of(exclusion.where.begin(), exclusion.where.end(), [&](const auto& condition) {
    const auto& [axis, values] = condition;
    const std::string value = grammars.find(axis, "exclude").value_of(work, competitor);
    return std::find(values.begin(), values.end(), value) != values.end();
  });
}

// Marks what the sweep leaves out. An exclusion without a point is a mistake in the file, unless
// flags replaced the axes it speaks of.
void exclude_points(std::vector<Case>& cases, const Sweep& sweep, const Registry& registry) {
  const AxisGrammars grammars(registry);
  for (std::size_t i = 0; i < sweep.exclude.size(); ++i) {
    const Exclusion& exclusion = sweep.exclude[i];
    for (const auto& [axis, values] : exclusion.where) {
      if (axis != "kernel") continue;
      for (const std::string& name : values) {
        if (!is_peer(name)) check_kernel_name(name, registry);
      }
    }
    bool found = false;
    for (Case& work : cases) {
      for (Competitor& competitor : work.competitors) {
        if (!matches(exclusion, grammars, work, competitor)) continue;
        found = true;
        if (competitor.skipped.empty()) competitor.skipped = exclusion.reason;
      }
    }
    if (!found && !sweep.overridden) {
      throw UsageError(fmt::format("exclude[{}]: matches no point of the sweep", i));
    }
  }
}

// Returns the cases of one product.
std::vector<Case> expand_product(const Axes& axes, bool tune, const Registry& registry,
                                 const Device& device) {
  std::vector<Case> cases = multiply_axes(axes);
  const std::vector<Competitor> competitors = make_competitors(axes, tune, registry, device);
  for (Case& work : cases) {
    Problem& problem = work.problem;
    problem.lengths = make_lengths(problem);
    if (const std::string reason = invalid(problem); !reason.empty()) {
      throw UsageError(fmt::format("axes: {} (in {})", in_words_of_axes(reason), problem.id()));
    }
    work.competitors = put_to(problem, competitors, device);
  }
  return cases;
}

// Adds the peers to every case: they compete on all, whatever kernels do.
void add_peers(std::vector<Case>& cases, const std::vector<std::string>& peers,
               const Device& device) {
  for (Case& work : cases) {
    for (const std::string& peer : peers) {
      work.competitors.push_back(
          {.kernel = peer,
           .backend = device.backend,
           .unsupported = device.name.empty() ? no_device(device.backend)
                                              : unsupported_by_peer(peer, work.problem, device)});
    }
  }
}

// Merges the cases of several products. A problem that is there already gets only the competitors
// that are new, so that all that compete on a problem are timed together.
class CaseList {
 public:
  void add(std::vector<Case> cases) {
    for (Case& work : cases) {
      const std::string key =
          fmt::format("{} {} {}", work.problem.id(), to_string(work.input_kind), work.seed);
      const auto [place, is_new] = places_.emplace(key, cases_.size());
      if (is_new) {
        cases_.push_back(std::move(work));
      } else {
        add_competitors(cases_[place->second].competitors, work.competitors);
      }
    }
  }
  std::vector<Case> take() { return std::move(cases_); }

 private:
  std::vector<Case> cases_;
  std::map<std::string, std::size_t> places_;
};

std::vector<Case> expand_products(const Sweep& sweep, const Registry& registry,
                                  const Device& device) {
  CaseList list;
  for (const Axes& axes : sweep.axes) list.add(expand_product(axes, sweep.tune, registry, device));
  std::vector<Case> cases = list.take();
  for (Case& work : cases) work.input = sweep.input;
  add_peers(cases, sweep.peers, device);
  exclude_points(cases, sweep, registry);
  return cases;
}

}  // namespace

std::vector<Case> expand(const Sweep& sweep, const Registry& registry, const Device& device) {
  try {
    return expand_products(sweep, registry, device);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", sweep.source, error.what()));
  }
}

}  // namespace attnlab
