#include "harness/verify/verify.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <set>
#include <utility>

#include "harness/record/repro.h"
#include "harness/verify/checks.h"
#include "kernels/api/runtime.h"

namespace attnlab::verify {

namespace {

using Clock = std::chrono::steady_clock;

// Returns a command that makes this check again. Everything that its problem, inputs and config
// depend on is in the name and the flags.
std::string repro_of(const Check& check, const Options& options) {
  const Device& device = *options.device;
  std::string command = fmt::format("attnlab verify --backend {} --kernel {}",
                                    to_string(device.backend), check.kernel->name);
  if (device.backend == Backend::cpu) {
    command += fmt::format(" --isa {} --threads {}", device.isa, device.threads);
  }
  command += fmt::format(" --seed {} --only {}", options.seed, shell_word(check.name));
  if (check.part == Part::random && options.random != kDefaultRandom) {
    command += fmt::format(" --random {}", options.random);
  }
  if (check.part == Part::repeats && options.repeat != kDefaultRepeat) {
    command += fmt::format(" --repeat {}", options.repeat);
  }
  return command;
}

Plan make_plan(const Options& options) {
  Plan plan(options);
  if (plan.kernels().empty()) return plan;  // it says why
  for (const Part part : options.parts) {
    switch (part) {
      case Part::shapes: plan_shapes(plan); break;
      case Part::random: plan_random(plan); break;
      case Part::properties: plan_properties(plan); break;
      case Part::repeats: plan_repeats(plan); break;
    }
  }
  return plan;
}

// Runs a check and says what became of it.
Result run(const Check& check, const Options& options) {
  Result result{.name = check.name,
                .kernel = check.kernel->name,
                .backend = check.kernel->backend,
                .part = check.part,
                .pass = check.pass};
  if (!check.run) {
    result.outcome = Outcome::skipped;
    result.message = check.skipped;
    return result;
  }
  const Clock::time_point start = Clock::now();
  const auto fail = [&](const std::string& caught_by, const std::string& message) {
    result.outcome = Outcome::failed;
    result.check = caught_by;
    result.message = message;
    result.repro = repro_of(check, options);
  };
  try {
    check.run();
  } catch (const Failure& failure) {
    fail(failure.check, failure.message);
  } catch (const DeviceLost& lost) {
    fail(kDeviceLost, fmt::format("{}; no check after this one was made", lost.what()));
  } catch (const std::exception& error) {
    fail("exception", fmt::format("threw '{}'", error.what()));
  } catch (...) {
    fail("exception", "threw something that is not a std::exception");
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace

std::vector<std::string> list(const Options& options) {
  std::vector<std::string> names;
  for (const Check& check : make_plan(options).take()) names.push_back(check.name);
  return names;
}

std::vector<Result> verify(const Options& options, const Observer& observer) {
  Plan plan = make_plan(options);
  if (observer.compile && !plan.needed().empty()) observer.compile(plan.needed());
  std::vector<Check> checks = plan.take();
  double total = 0.0;
  for (const Check& check : checks) total += check.weight;
  if (observer.planned) observer.planned(total);
  std::vector<Result> results;
  std::set<const Implementation*> dropped;
  for (Check& check : checks) {
    if (dropped.contains(check.kernel)) continue;
    if (observer.begins) observer.begins(check.name);
    results.push_back(run(check, options));
    check.run = nullptr;  // frees what no later check needs of its subject
    const bool lost = results.back().check == kDeviceLost;
    const bool failed = results.back().outcome == Outcome::failed;
    if (failed && options.after_failure == AfterFailure::drop_kernel) dropped.insert(check.kernel);
    if (observer.ended) observer.ended(results.back(), check.weight);
    if (lost) break;
  }
  return results;
}

}  // namespace attnlab::verify
