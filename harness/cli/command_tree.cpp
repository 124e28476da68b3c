#include "harness/cli/command_tree.h"

#include <CLI/CLI.hpp>
#include <map>

#include "harness/plan/axes.h"
#include "harness/plan/gpus.h"
#include "harness/plan/peer_names.h"
#include "harness/report/fields.h"
#include "harness/report/table.h"

namespace attnlab {
namespace {

using Words = std::vector<std::string>;

Words field_names() {
  Words names;
  for (const FieldHelp& field : field_help()) names.push_back(field.name);
  return names;
}

Words gpu_names() {
  Words names;
  for (const Gpu& gpu : gpus()) names.push_back(gpu.name);
  return names;
}

// Some flags take one of a few words. Tests hold these lists to what the verbs accept.
const std::map<std::string, Words>& known_words() {
  static const std::map<std::string, Words> kWords = {
      {"--pass", {"fwd", "bwd", "fwdbwd"}},
      {"--dtype", {"f32", "f16", "bf16", "e4m3"}},
      {"--quant", {"tensor", "head", "block"}},
      {"--quant-v", {"tensor", "head", "block", "channel"}},
      {"--layout", {"bshd", "bhsd", "packed"}},
      {"--mask", {"none", "causal", "window:", "padding", "blocks:"}},
      {"--input-kind",
       {"normal", "uniform", "integers", "large_logits", "outlier", "outlier_channel", "v_one",
        "v_mean_one", "sink"}},
      {"--kernel", kernel_names(builtin_registry())},
      {"--backend", {"auto", "cpu", "cuda"}},
      {"--format", {"table", "markdown", "csv", "json"}},
      {"--counters", {"auto", "off", "require"}},
      {"--peer", known_peers()},
      {"--gpu", gpu_names()},
      {"--tool", {"ncu", "nsys"}},
      {"--rows", field_names()},
      {"--cols", field_names()},
      {"--value", field_names()},
  };
  return kWords;
}

}  // namespace

std::vector<const CLI::App*> visible_verbs(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

std::vector<const CLI::Option*> visible_flags(const CLI::App& verb) {
  return verb.get_options([](const CLI::Option* option) {
    return option->nonpositional() && !option->get_group().empty();
  });
}

const CLI::Option* positional_of(const CLI::App& verb) {
  const auto found =
      verb.get_options([](const CLI::Option* option) { return option->get_positional(); });
  return found.empty() ? nullptr : found.front();
}

std::string long_name(const CLI::Option& flag) { return "--" + flag.get_lnames().front(); }

FlagValues values_of(const CLI::Option& flag) {
  using Kind = FlagValues::Kind;
  if (flag.get_items_expected_max() == 0) return {};
  const std::string type = flag.get_type_name();
  if (type == "SHELL") return {.kind = Kind::words, .words = {"bash", "zsh", "fish"}};
  if (type.starts_with("FILE") && type.find('=') == std::string::npos) return {.kind = Kind::files};
  if (type == "SWEEP.json") return {.kind = Kind::files};
  if (type == "DIR") return {.kind = Kind::folders};
  const auto known =
      flag.get_lnames().empty() ? known_words().end() : known_words().find(long_name(flag));
  if (known == known_words().end()) return {.kind = Kind::some};
  FlagValues values = {.kind = Kind::words, .words = known->second};
  values.is_list = type != "NAME" && type != "MODE";
  if (known->first == "--format") {  // not every verb has all of them
    std::erase_if(values.words, [&](const std::string& word) {
      return flag.get_description().find(word) == std::string::npos;
    });
  }
  return values;
}

}  // namespace attnlab
