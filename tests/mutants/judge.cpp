// The verifier on one kernel of this program, in steps: cheap ones first, so that a wrong kernel is
// found soon. mutants.py builds it with one kernel made wrong, and with none (the control).
//
//   judge KERNEL CPU|CUDA        stop at the first failure
//   judge KERNEL CPU|CUDA all    make every step, each to its first failure
//
// Writes one line when a check begins and one when it has ended, fields separated by tabs, so that
// whoever reads them knows what was under way if the process dies:
//
//   begin  step  name
//   end    step  name  outcome  check  seconds  message
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "harness/verify/verify.h"
#include "kernels/api/registry.h"

namespace attnlab {
namespace {

using verify::Options;
using verify::Part;

// Workers even where there are few processors: who shares dQ meets, and wrong orders show.
constexpr int kThreads = 4;

struct Step {
  const char* name;
  Options options;
};

std::vector<Step> make_steps(const Implementation& kernel, const Device& device) {
  Options all = {.kernels = {&kernel},
                 .device = &device,
                 .random = 24,
                 .after_failure = verify::AfterFailure::drop_kernel,
                 .longest = 300};
  const auto step = [&](const char* name, Part part) {
    Options options = all;
    options.parts = {part};
    return Step{name, options};
  };
  std::vector<Step> steps = {step("shapes", Part::shapes), step("random", Part::random),
                             step("properties", Part::properties), step("repeats", Part::repeats),
                             step("long shapes", Part::shapes)};
  steps.back().options.longest = verify::kLongestSeqlen;
  steps.back().options.only = "*/lengths/4224/none/*";
  return steps;
}

std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  std::ranges::replace(text, '\t', ' ');
  return text;
}

void say(const std::string& line) {
  std::fputs((line + '\n').c_str(), stdout);
  std::fflush(stdout);
}

enum class Steps { until_caught, all };

void judge(const Implementation& kernel, const Device& device, Steps which) {
  for (const Step& step : make_steps(kernel, device)) {
    bool caught = false;
    verify::verify(
        step.options,
        {.begins =
             [&](const std::string& name) { say(fmt::format("begin\t{}\t{}", step.name, name)); },
         .ended =
             [&](const verify::Result& result, double /*weight*/) {
               caught |= result.outcome == verify::Outcome::failed;
               say(fmt::format("end\t{}\t{}\t{}\t{}\t{:.3f}\t{}", step.name, result.name,
                               to_string(result.outcome), result.check, result.seconds,
                               on_one_line(result.message)));
             }});
    if (caught && which == Steps::until_caught) return;
  }
}

int run(const std::vector<std::string_view>& arguments) {
  if (arguments.size() < 2) {
    std::fputs("usage: judge KERNEL BACKEND [all]\n", stderr);
    return 2;
  }
  for (Device& device : available_devices()) {
    const Implementation* kernel = builtin_registry().find(arguments[0], device.backend);
    if (kernel == nullptr || to_string(device.backend) != arguments[1]) continue;
    device.threads = kThreads;
    judge(*kernel, device, arguments.size() > 2 ? Steps::all : Steps::until_caught);
    return 0;
  }
  std::fputs("judge: no such kernel or no such device here\n", stderr);
  return 3;
}

}  // namespace
}  // namespace attnlab

int main(int argc, char** argv) {
  try {
    return attnlab::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "judge: %s\n", error.what());
    return 3;
  }
}
