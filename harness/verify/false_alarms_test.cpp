// Counts how often correct kernels fail the tolerance rule, and how much of its bounds they use.
// The kernels of the CPU run random problems; a third of the problems are judged by 5 rows and keys
// or fewer. By default a few run; $ATTNLAB_FALSE_ALARMS says how many problems, and how many of
// e4m3 and narrow ones beside them (each is run by every kernel in every pass it has),
// $ATTNLAB_FALSE_ALARMS_SEED of which seed, and $ATTNLAB_FALSE_ALARMS_FIRST from which one on. Both
// tables are printed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "harness/base/derive_seed.h"
#include "harness/verify/draw.h"
#include "harness/verify/trial.h"
#include "kernels/api/registry.h"
#include "reference/tolerance.h"

namespace attnlab::verify {
namespace {

// The constants of the bounds were set while looking at seeds 1, 77, 1001, 9305, 9306, 9401 to
// 9404, 9501, 9502, 9602, 9603 and 9801; others judge them.
constexpr std::uint64_t kSeed = 2001;
constexpr std::int64_t kProblems = 24;
constexpr std::int64_t kLongest = 200;
constexpr std::int64_t kFewRows = 5;

std::int64_t from_environment(const char* name, std::int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoll(text);
}

// Holds the largest share of each bound that was used.
struct Used {
  double max = 0.0, row = 0.0, slope = 0.0, slice_slope = 0.0;

  void take(const reference::Verdict& verdict) {
    const auto keep = [](double& most, double share) { most = std::max(most, share); };
    if (verdict.bound > 0.0) keep(max, verdict.max_abs / verdict.bound);
    keep(row, verdict.row_share.value_or(0.0));
    keep(slope, verdict.slope_share.value_or(0.0));
    keep(slice_slope, verdict.slice_slope_share.value_or(0.0));
  }
};

struct Count {
  int runs = 0, few_rows = 0, alarms = 0;
};

// Chooses up to 5 rows of one slice, or keys of one head, wherever they lie.
reference::Samples few_of(const Problem& problem, std::uint64_t seed) {
  const auto head = static_cast<std::int64_t>(seed >> 8) % problem.num_heads_kv;
  const auto spread = [&](std::int64_t all) {
    const std::int64_t count =
        std::min<std::int64_t>(1 + static_cast<std::int64_t>(seed % kFewRows), all);
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = 0; i < count; ++i) chosen.push_back(i * all / count);
    return chosen;
  };
  reference::Samples samples;
  samples.rows = {{.head = head, .rows = spread(problem.queries(0))}};
  if (problem.runs_backward()) {
    samples.columns = {{.head_kv = head, .keys = spread(problem.keys(0))}};
  }
  return samples;
}

class Campaign {
 public:
  void run_problem(std::uint64_t seed, std::int64_t index) {
    SCOPED_TRACE(fmt::format("problem {} of seed {}", index, seed));
    run(draw_problem(seed, index, kLongest), index);
  }
  // Has few keys, of which dropout leaves next to none, in one or two columns.
  void run_narrow_problem(std::uint64_t seed, std::int64_t index) {
    SCOPED_TRACE(fmt::format("narrow problem {} of seed {}", index, seed));
    RandomProblem drawn = draw_problem(seed, index, kLongest);
    Problem& problem = drawn.problem;
    const std::uint64_t lot = derive_seed(drawn.seed, "narrow");
    constexpr double kDropouts[] = {0.9, 0.97, 0.986};
    problem.head_dim = 1 + static_cast<std::int64_t>(lot % 2);
    problem.seqlen_k = 1 + static_cast<std::int64_t>((lot >> 8) % 10);
    problem.dropout = kDropouts[(lot >> 16) % 3];
    problem.num_heads_kv = 1;
    problem.mask = {};
    problem.lengths = {};
    problem.layout = Layout::bshd;
    run(drawn, index);
  }
  void run_e4m3_problem(std::uint64_t seed, std::int64_t index) {
    SCOPED_TRACE(fmt::format("problem {} of e4m3 of seed {}", index, seed));
    run(draw_e4m3_problem(seed, index, kLongest), index);
  }

  void print() const {
    for (const auto& [name, count] : counts_) {
      fmt::print("{:32} {:6} runs, {:5} of 5 rows or fewer, {} false alarms\n", name, count.runs,
                 count.few_rows, count.alarms);
    }
    for (const auto& [name, used] : used_) {
      fmt::print("{:10} largest share used: max {:.2f} row {:.2f} slope {:.2f} slice {:.2f}\n",
                 name, used.max, used.row, used.slope, used.slice_slope);
    }
  }

 private:
  void run(const RandomProblem& drawn, std::int64_t index) {
    const bool few_rows = index % 3 == 0;
    Problem both = drawn.problem;
    both.pass = both.is_e4m3() ? Pass::fwd : Pass::fwdbwd;
    if (few_rows && (both.queries(0) == 0 || both.keys(0) == 0)) return;
    Subject subject(both, drawn.kind, drawn.seed, device_);
    if (!both.is_e4m3()) subject.wants_backward();
    const reference::References references =
        few_rows ? reference::make_references(both, subject.inputs().host(),
                                              few_of(both, drawn.seed), device_.threads)
                 : subject.references(reference::Products::storage);
    for (const Implementation* kernel : builtin_registry().all()) {
      if (kernel->backend != Backend::cpu) continue;
      for (const Pass pass : {Pass::fwd, Pass::bwd}) {
        Setup setup{.kernel = kernel, .device = device_, .pass = pass};
        setup.config = draw_config(*kernel, both, derive_seed(drawn.seed, kernel->name));
        if (!unsupported(setup, both).empty()) continue;
        run_kernel(subject, setup, references, drawn, few_rows);
      }
    }
  }

  void run_kernel(Subject& subject, const Setup& setup, const reference::References& references,
                  const RandomProblem& drawn, bool few_rows) {
    Trial trial(subject, setup);
    trial.launch();
    Count& count = counts_[fmt::format("{:8} {:5} {}", setup.kernel->name,
                                       to_string(drawn.problem.dtype), to_string(drawn.kind))];
    ++count.runs;
    count.few_rows += few_rows ? 1 : 0;
    for (const auto& verdict : reference::judge(trial.problem(), trial.host(), references)) {
      used_[fmt::format("{:5} {}", to_string(drawn.problem.dtype), verdict.tensor)].take(verdict);
      if (verdict.pass) continue;
      ++count.alarms;
      ADD_FAILURE() << verdict.failed_bound << ": " << verdict.message << "; " << setup.text();
    }
  }

  const Device device_ = available_devices().back();
  std::map<std::string, Count> counts_;
  std::map<std::string, Used> used_;
};

TEST(FalseAlarms, NoneOfCorrectKernels) {
  const std::int64_t problems = from_environment("ATTNLAB_FALSE_ALARMS", kProblems);
  const auto seed =
      static_cast<std::uint64_t>(from_environment("ATTNLAB_FALSE_ALARMS_SEED", kSeed));
  Campaign campaign;
  const std::int64_t first = from_environment("ATTNLAB_FALSE_ALARMS_FIRST", 0);
  for (std::int64_t i = first; i < first + problems; ++i) {
    campaign.run_problem(seed, i);
    campaign.run_e4m3_problem(seed, i);
    campaign.run_narrow_problem(seed, i);
  }
  campaign.print();
}

// Correct kernels failed once on these problems, by what the rule did not know: P that round alike
// in all rows, or before O cancels; subnormal P of f16, in slopes and identities; numbers that fp32
// cannot hold, nor squares of; products that are nearly ties. Those of 9402 to 9404 are naive's,
// which scaled K before it summed: scores rounded by themselves, in bf16 tied ones to different
// numbers. 9502 has an outlier among many rows, and slopes on what is 0 but for the reference's
// rounding. In 9602 and 9603 O cancels to 0, or to 1e-27, and leaves what fp32 rounds. In 9801 many
// rows equal few others.
TEST(FalseAlarms, NoneWhereThereWereSome) {
  constexpr struct {
    std::uint64_t seed;
    std::int64_t problem;
  } kOnce[] = {{9305, 251},   {9305, 371},  {9306, 2552}, {9401, 273},  {9401, 2373}, {9401, 2517},
               {9401, 3129},  {9401, 5063}, {9401, 5529}, {9402, 4290}, {9402, 4316}, {9402, 4329},
               {9403, 614},   {9403, 1123}, {9404, 678},  {9501, 4407}, {9502, 1894}, {9502, 2309},
               {9602, 12647}, {9603, 9761}, {9801, 23}};
  Campaign campaign;
  for (const auto& [seed, problem] : kOnce) {
    campaign.run_problem(seed, problem);
  }
}

}  // namespace
}  // namespace attnlab::verify
