// Plans seeded random problems. Number i of a seed is the same for all kernels and passes, so the
// oracle is asked once; each kernel and pass takes supported problems until it has enough. Those of
// e4m3 have numbers of their own, and kernels that have e4m3 take as many of them.
#include <fmt/format.h>

#include <set>
#include <utility>

#include "harness/base/derive_seed.h"
#include "harness/plan/case.h"
#include "harness/verify/checks.h"
#include "harness/verify/draw.h"

namespace attnlab::verify {

namespace {

constexpr Pass kPasses[] = {Pass::fwdbwd, Pass::bwd, Pass::fwd};
constexpr int kConfigDraws = 8;    // configs drawn before the default is taken
constexpr int kProblemDraws = 16;  // problems drawn for each one that is wanted
// Each is compiled, which takes seconds if the cache lacks it; another seed has others.
constexpr std::size_t kSpecialisations = 24;

// Names the units that are compiled for one problem.
using Specialisation = std::vector<std::string>;

// Holds what one pass of one kernel has so far.
struct Taker {
  const Implementation* kernel = nullptr;
  Pass pass = Pass::fwd;
  int taken = 0;
  std::string last_reason;  // why it did not take a problem
  std::set<Specialisation> specialisations;
};

// Returns whether all that the setup needs is compiled for the taker, or there is room for it.
bool is_one_of_few(Taker& taker, const Setup& setup, Problem problem) {
  if (taker.kernel->units == nullptr) return true;
  problem.pass = taker.pass;
  Specialisation needed;
  for (const KernelUnit& unit : taker.kernel->units(problem, setup.config, setup.device)) {
    needed.push_back(unit.name);
  }
  if (taker.specialisations.size() < kSpecialisations) {
    taker.specialisations.insert(needed);
  }
  return taker.specialisations.contains(needed);
}

// Returns "" if the bounds know what the setup may lose, else why the problem is not for it: of a
// flat P and a V of mean 1 sums of e4m3 that are not promoted lose more than they allow.
std::string beyond_bounds(const Setup& setup, const RandomProblem& drawn) {
  const bool has_mean = drawn.kind == InputKind::v_one || drawn.kind == InputKind::v_mean_one;
  if (!has_mean) return "";
  Problem problem = drawn.problem;
  problem.pass = setup.pass;
  const Config filled = resolved(*setup.kernel, problem, setup.config, setup.device);
  return products_of(problem, setup.kernel, filled) == reference::Products::unpromoted
             ? "a V of mean 1 is for sums that are promoted"
             : "";
}

// Returns "" if the setup takes the problem, else why not.
std::string refusal(const Setup& setup, const RandomProblem& drawn) {
  const std::string reason = unsupported(setup, drawn.problem);
  return reason.empty() ? beyond_bounds(setup, drawn) : reason;
}

// Returns the setup with a config drawn from the kernel's axes, the same for all of its passes.
Setup draw_setup(const Plan& plan, const Taker& taker, const RandomProblem& drawn) {
  Setup setup = default_setup(*taker.kernel, plan.device(), taker.pass);
  for (int draw = 0; draw < kConfigDraws; ++draw) {
    const std::string name = fmt::format("config/{}/{}", taker.kernel->name, draw);
    Setup candidate = setup;
    candidate.config = draw_config(*taker.kernel, drawn.problem, derive_seed(drawn.seed, name));
    if (!refusal(candidate, drawn).empty()) continue;
    if (taker.kernel->units != nullptr) return candidate;  // its tiles are chosen by hand
    Problem problem = drawn.problem;
    problem.pass = taker.pass;
    const Config filled = resolved(*taker.kernel, problem, candidate.config, plan.device());
    if (!has_too_small_tiles(filled, problem)) return candidate;
  }
  return setup;
}

using Draw = RandomProblem (*)(std::uint64_t seed, std::int64_t index, std::int64_t longest);

// Deals problems of one kind to those who take them. Names of checks begin with `prefix`.
void deal(Plan& plan, Draw draw, const std::string& prefix, std::vector<Taker> takers) {
  const Options& options = plan.options();
  bool all_have_enough = options.random == 0 || takers.empty();
  for (std::int64_t index = 0; !all_have_enough && index < kProblemDraws * options.random;
       ++index) {
    const RandomProblem drawn = draw(options.seed, index, options.longest);
    const auto subject =
        std::make_shared<Subject>(drawn.problem, drawn.kind, drawn.seed, plan.device());
    all_have_enough = true;
    for (Taker& taker : takers) {
      if (taker.taken == options.random) continue;
      const Setup setup = draw_setup(plan, taker, drawn);
      taker.last_reason = refusal(setup, drawn);
      if (taker.last_reason.empty() && is_one_of_few(taker, setup, drawn.problem)) {
        ++taker.taken;
        plan.add_judged(
            setup, Part::random,
            fmt::format("{}{}/{}/{}", prefix, options.seed, index, to_string(taker.pass)), subject);
      }
      all_have_enough = all_have_enough && taker.taken == options.random;
    }
  }
  for (const Taker& taker : takers) {
    if (taker.taken == options.random) continue;
    plan.skip(*taker.kernel, Part::random,
              fmt::format("{}{}/none/{}", prefix, options.seed, to_string(taker.pass)),
              taker.last_reason);
  }
}

}  // namespace

void plan_random(Plan& plan) {
  std::vector<Taker> takers, takers_of_e4m3;
  for (const Implementation* kernel : plan.kernels()) {
    for (const Pass pass : kPasses) takers.push_back({.kernel = kernel, .pass = pass});
    if (kernel->has_e4m3) takers_of_e4m3.push_back({.kernel = kernel, .pass = Pass::fwd});
  }
  deal(plan, draw_problem, "", std::move(takers));
  deal(plan, draw_e4m3_problem, "e4m3/", std::move(takers_of_e4m3));
}

}  // namespace attnlab::verify
