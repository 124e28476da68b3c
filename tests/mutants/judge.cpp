// Runs the verifier on one kernel of this program, in steps: cheap ones first, so that a wrong
// kernel is found soon; at last it times points as attnlab run does, which watches what timed
// launches write. mutants.py builds it with one kernel made wrong, and with none (the
// control); kernels of a GPU are wrong where $ATTNLAB_KERNEL_SOURCES says so.
//
//   judge KERNEL cpu|cuda        stop at the first failure
//   judge KERNEL cpu|cuda all    make every step, each to its first failure
//   judge KERNEL cpu|cuda first STEP [PATTERN]
//                                begin with this step (with its checks that fit the pattern), and
//                                go on with all of them if it catches nothing
//
// Writes one line when a check begins and one when it has ended, fields separated by tabs, so that
// whoever reads them knows what was under way if the process dies:
//
//   begin  step  name
//   end    step  name  outcome  check  seconds  message
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/progress.h"
#include "harness/plan/cost.h"
#include "harness/run/run.h"
#include "harness/verify/verify.h"
#include "kernels/api/compiler.h"
#include "kernels/api/registry.h"
#include "kernels/api/runtime.h"

namespace attnlab {
namespace {

using verify::Options;
using verify::Part;

// It has workers even where processors are few: who shares dQ meets, and wrong orders show.
constexpr int kThreads = 4;

// Kernels of a GPU are compiled for a head dim, a type and tiles, which takes far longer than the
// checks. So there are fewer random problems there, and of the shapes those that need few kernels:
// "head_dim" and "tiles" are left out.
constexpr int kRandom = 24, kRandomOnGpu = 8;
constexpr const char* kShapesOnGpu[] = {"lengths", "unequal", "blocks", "dropout",
                                        "packed",  "heads",   "inputs", "items"};

// It limits one launch, which takes milliseconds. It is less than mutants.py waits, so that the
// verifier says itself that a kernel hangs.
constexpr double kTimeout = 5.0;  // seconds

struct Step {
  std::string name;
  Options options;
  bool is_timed = false;
};

std::vector<Step> make_steps(const Implementation& kernel, const Device& device) {
  const bool on_gpu = device.backend == Backend::cuda;
  const Options all = {.kernels = {&kernel},
                       .device = &device,
                       .random = on_gpu ? kRandomOnGpu : kRandom,
                       .after_failure = verify::AfterFailure::drop_kernel,
                       .longest = 300};
  std::vector<Step> steps;
  const auto add = [&](const std::string& name, Part part, const std::string& only = "") {
    steps.push_back({.name = name, .options = all});
    steps.back().options.parts = {part};
    steps.back().options.only = only;
  };
  if (on_gpu) {
    for (const std::string group : kShapesOnGpu) {
      add("shapes of " + group, Part::shapes, "*/shapes/" + group + "/*");
    }
  } else {
    add("shapes", Part::shapes);
  }
  add("random", Part::random);
  add("properties", Part::properties);
  add("repeats", Part::repeats);
  add("long shapes", Part::shapes, "*/lengths/4224/none/*");
  steps.back().options.longest = verify::kLongestSeqlen;
  if (!on_gpu) {  // an emulated one would take minutes
    add("far shapes", Part::shapes, "*/far/*");
    steps.back().options.longest = verify::kLongestSeqlen;
  }
  steps.push_back({.name = "timed", .options = all, .is_timed = true});
  return steps;
}

// Puts a copy of a step before all others, with the checks that fit the pattern ("": all of it).
// Returns false if there is no such step.
bool begin_with(std::vector<Step>& steps, std::string_view name, std::string_view pattern) {
  const auto found = std::ranges::find(steps, name, &Step::name);
  if (found == steps.end()) return false;
  Step first = *found;
  if (!pattern.empty()) first.options.only = pattern;
  steps.insert(steps.begin(), std::move(first));
  return true;
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

// A fault of every seventh launch is seen by chance, at two launches a round.
constexpr int kTimedRounds = 30;

// Times a point of a pass, in hundreds of launches.
Record timed_record(const Case& work, const Device& device) {
  const RunContext context = {.device = &device,
                              .protocol = {.min_rounds = kTimedRounds, .max_rounds = kTimedRounds},
                              .memory_limit_bytes = 1 << 30};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> nobody(std::tmpfile(), std::fclose);
  Progress progress(nobody.get(), case_weight(work, context.protocol));
  Record record;
  run_case(work, context, progress,
           [&](const std::vector<Record>& finished) { record = finished.back(); });
  return record;
}

// Returns whether a pass is caught, the first that is: its record is not ok.
bool judge_timed(const Step& step) {
  const Implementation& kernel = *step.options.kernels.front();
  const Device& device = *step.options.device;
  const Config config = default_config(kernel);
  const bool on_gpu = device.backend == Backend::cuda;
  const i64 heads = on_gpu ? 2 : 4, seqlen = on_gpu ? 100 : 200;  // an emulated one takes seconds
  for (const Pass pass : {Pass::fwd, Pass::bwd}) {
    Case work = {.problem = {.pass = pass,
                             .dtype = on_gpu ? Dtype::f16 : Dtype::f32,
                             .batch = 2,
                             .num_heads_q = heads,
                             .num_heads_kv = heads,
                             .seqlen_q = seqlen,
                             .seqlen_k = seqlen,
                             .head_dim = 32},
                 .seed = 7};
    if (!kernel.unsupported(work.problem, config, device).empty()) continue;
    work.competitors.push_back({.kernel = kernel.name,
                                .backend = device.backend,
                                .implementation = &kernel,
                                .config = config});
    const std::string name = fmt::format("{}/timed/{}", kernel.name, to_string(pass));
    say(fmt::format("begin\t{}\t{}", step.name, name));
    const auto start = std::chrono::steady_clock::now();
    const Record record = timed_record(work, device);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    const bool is_ok = record.status == Status::ok;
    say(fmt::format("end\t{}\t{}\t{}\t{}\t{:.3f}\t{}", step.name, name, is_ok ? "passed" : "failed",
                    to_string(record.status), taken.count(), on_one_line(record.reason)));
    if (!is_ok) return true;
  }
  return false;
}

enum class Steps { until_caught, all };

// Says what came of a step's checks.
struct Judged {
  bool caught = false;
  bool lost = false;  // the device
};

Judged judge_verified(const Step& step) {
  Judged judged;
  verify::verify(
      step.options,
      {.begins =
           [&](const std::string& name) { say(fmt::format("begin\t{}\t{}", step.name, name)); },
       .ended =
           [&](const verify::Result& result, double /*weight*/) {
             judged.caught |= result.outcome == verify::Outcome::failed;
             judged.lost |= result.check == verify::kDeviceLost;
             say(fmt::format("end\t{}\t{}\t{}\t{}\t{:.3f}\t{}", step.name, result.name,
                             to_string(result.outcome), result.check, result.seconds,
                             on_one_line(result.message)));
           }});
  return judged;
}

void judge(const std::vector<Step>& steps, Steps which) {
  for (const Step& step : steps) {
    const Judged judged =
        step.is_timed ? Judged{.caught = judge_timed(step)} : judge_verified(step);
    if (judged.lost || (judged.caught && which == Steps::until_caught)) return;
  }
}

int run(const std::vector<std::string_view>& arguments) {
  const std::string_view how = arguments.size() > 2 ? arguments[2] : "";
  const bool is_wrong = how == "first" ? arguments.size() < 4 : !how.empty() && how != "all";
  if (arguments.size() < 2 || is_wrong) {
    std::fputs("usage: judge KERNEL BACKEND [all | first STEP [PATTERN]]\n", stderr);
    return 2;
  }
  std::string why = "there is no such kernel";
  for (const Backend backend : {Backend::cpu, Backend::cuda}) {
    const Implementation* kernel = builtin_registry().find(arguments[0], backend);
    if (kernel == nullptr || to_string(backend) != arguments[1]) continue;
    why = why_no_device(backend);
    for (Device& device : available_devices()) {
      if (device.backend != backend) continue;
      device.threads = kThreads;
      runtime_of(device).set_timeout(kTimeout);
      std::vector<Step> steps = make_steps(*kernel, device);
      if (how == "first" &&
          !begin_with(steps, arguments[3], arguments.size() > 4 ? arguments[4] : "")) {
        fmt::print(stderr, "judge: there is no step '{}'\n", arguments[3]);
        return 2;
      }
      judge(steps, how == "all" ? Steps::all : Steps::until_caught);
      return 0;
    }
  }
  std::fprintf(stderr, "judge: %s\n", why.c_str());
  return 3;
}

}  // namespace
}  // namespace attnlab

int main(int argc, char** argv) {
  int code = 3;
  try {
    if (argc == 2 && argv[1] == std::string_view("compile-worker")) {  // of compile_ahead()
      return attnlab::run_compile_worker();
    }
    code = attnlab::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "judge: %s\n", error.what());
  }
  std::_Exit(code);  // exit() would let the driver wait for a kernel that hangs
}
