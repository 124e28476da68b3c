#include "harness/verify/checks.h"

#include <fmt/format.h>

#include "harness/plan/accounting.h"
#include "harness/plan/unsupported.h"

namespace attnlab::verify {

Plan::Plan(const Options& options) : options_(options) {
  for (const Implementation* kernel : options.kernels) {
    if (kernel->backend == device().backend && !device().name.empty()) {
      kernels_.push_back(kernel);
      continue;
    }
    const std::string reason =
        device().name.empty()
            ? no_device(device().backend)
            : fmt::format("runs on {}, and the device is {}", to_string(kernel->backend),
                          to_string(device().backend));
    for (const Part part : options.parts) skip(*kernel, part, "all", reason);
  }
}

std::string Plan::name_of(const Implementation& kernel, Part part, const std::string& rest) {
  return fmt::format("{}/{}/{}", kernel.name, to_string(part), rest);
}

bool Plan::wants(const std::string& name) const {
  return options_.only.empty() || matches_glob(options_.only, name);
}

void Plan::skip(const Implementation& kernel, Part part, const std::string& rest,
                const std::string& reason) {
  Check check{.kernel = &kernel, .part = part, .name = name_of(kernel, part, rest)};
  check.skipped = reason;
  if (wants(check.name)) checks_.push_back(std::move(check));
}

void Plan::add(const Setup& setup, Part part, const std::string& rest, double weight,
               std::function<void()> run) {
  Check check{.kernel = setup.kernel,
              .part = part,
              .name = name_of(*setup.kernel, part, rest),
              .pass = setup.pass,
              .weight = weight,
              .run = std::move(run)};
  if (wants(check.name)) checks_.push_back(std::move(check));
}

void Plan::launches(const Setup& setup, const Problem& problem) {
  Problem with_pass = problem;
  with_pass.pass = setup.pass;
  needed_.add(with_pass,
              {.kernel = setup.kernel->name,
               .backend = setup.kernel->backend,
               .implementation = setup.kernel,
               .config = resolved(*setup.kernel, with_pass, setup.config, setup.device)},
              setup.device);
}

void Plan::add_judged(const Setup& setup, Part part, const std::string& rest,
                      const std::shared_ptr<Subject>& subject) {
  if (const std::string reason = unsupported(setup, subject->problem()); !reason.empty()) {
    return skip(*setup.kernel, part, rest, reason);
  }
  if (!wants(name_of(*setup.kernel, part, rest))) return;
  if (setup.pass != Pass::fwd) subject->wants_backward();
  launches(setup, subject->problem());
  add(setup, part, rest, weight_of(subject->problem()), [setup, subject] {
    Trial trial(*subject, setup);
    trial.launch();
    trial.judge();
  });
}

double weight_of(const Problem& problem) {
  constexpr double kOfEveryCheck = 2e7;
  return kOfEveryCheck + static_cast<double>(paper_flops(problem));
}

Setup default_setup(const Implementation& kernel, const Device& device, Pass pass) {
  return {.kernel = &kernel, .config = default_config(kernel), .device = device, .pass = pass};
}

Setup widest_setup(const Implementation& kernel, const Device& device, const Problem& problem) {
  Setup setup = default_setup(kernel, device, Pass::fwdbwd);
  if (!unsupported(setup, problem).empty()) setup.pass = Pass::fwd;
  return setup;
}

bool has_blocks(const Implementation& kernel) {
  const Config config = default_config(kernel);
  return config.contains("block_m") && config.contains("block_n");
}

Setup with_blocks(Setup setup, std::int64_t block_m, std::int64_t block_n) {
  setup.config.set("block_m", block_m);
  setup.config.set("block_n", block_n);
  return setup;
}

Setup small_tiles(const Setup& setup, const Problem& problem) {
  if (!has_blocks(*setup.kernel)) return setup;
  for (const auto& [block_m, block_n] : {std::pair{24, 17}, {32, 32}, {64, 64}}) {
    const Setup small = with_blocks(setup, block_m, block_n);
    if (unsupported(small, problem).empty()) return small;
  }
  return setup;
}

Setup in_fixed_order(Setup setup) {
  const ConfigAxis* const axis = find_axis(*setup.kernel, AxisRole::fixed_order);
  if (axis != nullptr) setup.config.set(axis->name, 1);
  return setup;
}

}  // namespace attnlab::verify
