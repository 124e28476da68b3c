// Implements attnlab list, which shows kernels and what they can do, devices, sweeps.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/shipped.h"
#include "harness/base/text_table.h"
#include "harness/cli/verbs.h"
#include "harness/plan/axes.h"
#include "harness/plan/device_choice.h"
#include "harness/plan/expand.h"
#include "harness/plan/support.h"
#include "harness/plan/sweep_file.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFooter =
    "Support is found by asking each kernel about small problems that differ in one axis; what it\n"
    "refuses stands there with the reason. Kernels that only the other backend has are named too.\n"
    "\n"
    "Examples:\n"
    "  attnlab list\n"
    "  attnlab list --sweeps sweeps --format json";

Json kernel_json(const Implementation& implementation, const std::vector<Device>& devices) {
  Json kernel = {
      {"name", implementation.name},       {"backend", to_string(implementation.backend)},
      {"summary", implementation.summary}, {"config", Json::array()},
      {"support", Json::array()},          {"reason", nullptr}};
  for (int i = 0; i < implementation.num_axes; ++i) {
    const ConfigAxis& axis = implementation.axes[i];
    kernel["config"].push_back({{"name", axis.name},
                                {"summary", axis.summary},
                                {"default", axis.default_value},
                                {"minimum", axis.minimum},
                                {"maximum", axis.maximum}});
  }
  const bool on_gpu = implementation.backend == Backend::cuda;
  const Device device = choose_device(on_gpu ? BackendChoice::cuda : BackendChoice::cpu, devices);
  const Support support = probe_support(implementation, device);
  if (support.axes.empty()) kernel["reason"] = support.reason;
  for (const AxisSupport& axis : support.axes) {
    Json unsupported = Json::array();
    for (const auto& [reason, values] : axis.unsupported) {
      unsupported.push_back({{"values", values}, {"reason", reason}});
    }
    kernel["support"].push_back(
        {{"axis", axis.axis}, {"supported", axis.supported}, {"unsupported", unsupported}});
  }
  return kernel;
}

Json sweep_json(const std::filesystem::path& file, const std::vector<Device>& devices) {
  Json json = {{"file", file.string()}};
  try {
    const Sweep sweep = read_sweep(file, builtin_registry());
    std::size_t points = 0;
    for (const Case& work :
         expand(sweep, builtin_registry(), choose_device(sweep.backend, devices))) {
      points += work.competitors.size();
    }
    json["name"] = sweep.name;
    json["description"] = sweep.description;
    json["points"] = points;
  } catch (const UsageError& error) {
    json["error"] = error.what();
  }
  return json;
}

std::vector<std::filesystem::path> sweep_files(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    if (is_sweep_name(entry.path())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Json laboratory_json(const std::string& sweeps_folder) {
  const Registry& registry = builtin_registry();
  const std::vector<Device> devices = available_devices();
  Json json = {{"kernels", Json::array()},
               {"not_there_yet", Json::array()},
               {"config_axes", Json::array()},
               {"devices", Json::array()},
               {"sweeps", Json::array()}};
  for (const Implementation* implementation : registry.all()) {
    json["kernels"].push_back(kernel_json(*implementation, devices));
  }
  for (const Backend backend : {Backend::cpu, Backend::cuda}) {
    for (const std::string& name : kernel_names(registry)) {
      if (registry.find(name, backend) == nullptr) {
        json["not_there_yet"].push_back({{"name", name}, {"backend", to_string(backend)}});
      }
    }
  }
  for (const SharedAxis& axis : shared_axes(registry)) {
    json["config_axes"].push_back({{"name", axis.help.name},
                                   {"summary", axis.help.summary},
                                   {"minimum", axis.minimum},
                                   {"maximum", axis.maximum}});
  }
  for (const Device& device : devices) {
    json["devices"].push_back({{"backend", to_string(device.backend)},
                               {"name", device.name},
                               {"isa", device.isa},
                               {"threads", device.threads},
                               {"memory_bytes", device.memory_bytes},
                               {"cache_bytes", device.cache_bytes},
                               {"description", describe(device)}});
  }
  for (const auto& file : sweep_files(sweeps_folder)) {
    json["sweeps"].push_back(sweep_json(file, devices));
  }
  return json;
}

std::string joined(const Json& values) {
  return fmt::format("{}", fmt::join(values.get<std::vector<std::string>>(), ", "));
}

// Returns "  label           text", wrapped under the text.
std::string entry(const std::string& label, const std::string& text) {
  constexpr std::size_t kIndent = 20;
  return wrap(fmt::format("    {:<{}}{}", label, kIndent - 4, text), kIndent);
}

std::string kernel_text(const Json& kernel) {
  std::string text =
      wrap(fmt::format("  {} ({}): {}", kernel["name"].get<std::string>(),
                       kernel["backend"].get<std::string>(), kernel["summary"].get<std::string>()),
           4);
  for (const Json& axis : kernel["config"]) {
    text +=
        entry(axis["name"],
              fmt::format("{} in [{}, {}]: {}", axis["default"].get<std::int64_t>(),
                          axis["minimum"].get<std::int64_t>(), axis["maximum"].get<std::int64_t>(),
                          axis["summary"].get<std::string>()));
  }
  for (const Json& axis : kernel["support"]) {
    std::string values = joined(axis["supported"]);
    for (const Json& no : axis["unsupported"]) {
      values += fmt::format("{}not {} ({})", values.empty() ? "" : "; ", joined(no["values"]),
                            no["reason"].get<std::string>());
    }
    text += entry(axis["axis"], values);
  }
  if (kernel["reason"].is_string()) text += entry("cannot run", kernel["reason"]);
  return text;
}

std::string sweep_text(const Json& sweep) {
  std::string text =
      wrap("  " + sweep["file"].get<std::string>() +
               (sweep.contains("error")
                    ? ": cannot be used"
                    : fmt::format(": {} points", sweep["points"].get<std::size_t>())),
           4);
  const std::string more = sweep.value("error", sweep.value("description", ""));
  return more.empty() ? text : text + wrap("    " + more, 4);
}

std::string render_text(const Json& laboratory, const std::string& sweeps_folder) {
  std::string text =
      "Kernels (defaults of their config; what the probed values of each axis give)\n";
  for (const Json& kernel : laboratory["kernels"]) text += kernel_text(kernel);
  if (!laboratory["not_there_yet"].empty()) text += "\nNot there yet\n";
  for (const char* backend : {"cpu", "cuda"}) {
    std::string names;
    for (const Json& missing : laboratory["not_there_yet"]) {
      if (missing["backend"] == backend) {
        names += (names.empty() ? "" : ", ") + missing["name"].get<std::string>();
      }
    }
    if (!names.empty()) text += entry(backend, names);
  }
  text += "\nDevices (auto takes the first)\n";
  for (const Json& device : laboratory["devices"]) {
    text += entry(device["backend"], device["description"]);
  }
  text += fmt::format("\nSweeps in {}\n", sweeps_folder);
  if (laboratory["sweeps"].empty()) text += "  none; name another folder with --sweeps\n";
  for (const Json& sweep : laboratory["sweeps"]) text += sweep_text(sweep);
  return text;
}

int run(const std::string& sweeps_folder, bool is_given, const std::string& format_text) {
  const TableFormat format = parse_format(format_text, "--format");
  if (format != TableFormat::table && format != TableFormat::json) {
    throw UsageError(fmt::format("--format: list has table and json, not {}", format_text));
  }
  std::error_code error;
  if (is_given && !std::filesystem::is_directory(sweeps_folder, error)) {
    throw UsageError(fmt::format("--sweeps: {}: no such folder", sweeps_folder));
  }
  const Json laboratory = laboratory_json(sweeps_folder);
  print_to(stdout, "{}",
           format == TableFormat::json ? laboratory.dump(1) + "\n"
                                       : render_text(laboratory, sweeps_folder));
  return kExitGood;
}

}  // namespace

Verb add_list_verb(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("list", "Show kernels, what they support and why not, devices, sweeps");
  command->footer(kFooter);
  struct Flags {
    std::string sweeps = here_or_shipped("sweeps").string();
    std::string format = "table";
  };
  const auto flags = std::make_shared<Flags>();
  const CLI::Option* sweeps =
      command
          ->add_option(
              "--sweeps", flags->sweeps,
              "The folder of sweep files (default: sweeps, here or as it came with the program)")
          ->type_name("DIR")
          ->group("Input");
  command->add_option("--format", flags->format, "table or json")
      ->type_name("NAME")
      ->group("Output");
  return {command,
          [flags, sweeps] { return run(flags->sweeps, sweeps->count() > 0, flags->format); }};
}

}  // namespace attnlab
