// Tests the verifier on fake kernels: a right one passes everything, and every check is seen
// failing with one that is wrong in just the way that the check is there for.
#include "harness/verify/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/testing/fake_attention.h"
#include "harness/testing/fake_kernels.h"
#include "harness/verify/draw.h"

namespace attnlab::verify {
namespace {

enum class Fault {
  none,
  dropped_key,
  nan_output,
  forgets_a_row,
  lse_in_log2,
  wrong_dq,
  writes_past_o,
  writes_before_workspace,
  changes_k,
  changes_o_in_backward,
  throws,
  weights_by_position,   // permuted-keys
  bends_values,          // linear-in-v
  bends_gradients,       // linear-in-dout
  feels_lse,             // shifted-keys
  sees_the_last_key,     // causal-prefix
  other_kv_head,         // gqa
  next_entry,            // packed
  too_large,             // v-of-ones
  mean_of_nothing,       // nothing-visible
  feels_hidden_keys,     // hidden-keys, by 1e-11 of them
  reads_workspace,       // workspace-contents
  feels_threads,         // threads-change-nothing
  forward_drops_others,  // dropout-mask, in the forward
  dv_drops_others,       // dropout-mask, in dV
  ds_drops_others,       // dropout-mask, in dS
  drops_more,            // dropout-keep-rate
  first_launch_differs,  // repeats
  gradients_wander,      // repeats, deterministic or not
};

struct State : PreparedKernel {
  Problem problem;
  int threads = 1;
  bool deterministic = true;
  int launches = 0;
};

constexpr std::uint64_t kWorkspace = 256;

template <Fault kFault>
struct Fake {
  // Kernels with the axis may sum in any order unless it is 1.
  static constexpr ConfigAxis kAxes[] = {
      {"deterministic", "1: in a fixed order", 0, 0, 1, {}, AxisRole::fixed_order}};

  static std::string unsupported(const Problem& problem, const Config&, const Device&) {
    return problem.dtype == Dtype::f32 ? "" : "f32 only";
  }
  static std::uint64_t workspace_bytes(const Problem&, const Config&, const Device&) {
    return kWorkspace;
  }
  static PreparedKernel* prepare(const Problem& problem, const Config& config,
                                 const Device& device) {
    auto state = std::make_unique<State>();
    state->problem = problem;
    state->threads = device.threads;
    state->deterministic = config.get("deterministic") != 0;
    return state.release();
  }
  static void release(PreparedKernel* prepared) { delete static_cast<State*>(prepared); }

  static void launch(PreparedKernel* prepared, const Tensors& tensors, void*) {
    State& state = *static_cast<State*>(prepared);
    ++state.launches;
    if (kFault == Fault::throws) throw std::runtime_error("cannot <launch>");
    if (state.problem.pass != Pass::bwd) forward(state, tensors);
    if (state.problem.pass != Pass::fwd) backward(state, tensors);
    auto* workspace = static_cast<unsigned char*>(tensors.workspace);
    if (kFault == Fault::writes_before_workspace) workspace[-1] = 0;
    if (kFault == Fault::changes_k) {
      static_cast<float*>(const_cast<void*>(tensors.k))[0] += 1.0f;
    }
  }

  // Returns the row with what the fault changes of its problem.
  static fake::Row bent(fake::Row row) {
    if (kFault == Fault::other_kv_head) row.head_kv = row.h % row.shape.num_heads_kv;
    if (kFault == Fault::next_entry && row.b == 0 && row.problem.layout == Layout::packed) {
      ++row.first_key;
    }
    return row;
  }

  static void forward(const State& state, const Tensors& tensors) {
    Problem problem = state.problem;
    if (kFault == Fault::forward_drops_others) ++problem.seed;
    if (kFault == Fault::drops_more && problem.dropout > 0.0) problem.dropout += 0.02;
    fake::for_each_row(problem, tensors, [&](const fake::Row& plain) {
      const fake::Row row = bent(plain);
      if (kFault == Fault::forgets_a_row && row.r == row.mask.seqlen_q - 1) return;
      fake::attend(row, row.mask.seqlen_k - (kFault == Fault::dropped_key ? 1 : 0));
      float* o = row.o();
      const bool sees_nothing = std::isinf(row.lse());
      if (kFault == Fault::mean_of_nothing && sees_nothing) o[0] = row.v(0)[0];
      if (kFault == Fault::lse_in_log2) row.lse() *= 1.44269504f;
      if (kFault == Fault::nan_output && row.r == 0) o[0] = std::nanf("");
      if (sees_nothing) return;
      if (kFault == Fault::weights_by_position) {
        row.add(0.01f, row.v(0), o);
      }
      if (kFault == Fault::bends_values) o[0] = std::abs(o[0]);
      if (kFault == Fault::feels_lse) o[0] += 0.01f * row.lse();
      if (kFault == Fault::sees_the_last_key) row.add(0.1f, row.v(row.mask.seqlen_k - 1), o);
      if (kFault == Fault::too_large) o[0] *= 1.001f;
      if (kFault == Fault::feels_hidden_keys) o[0] += 1e-11f * row.v(row.mask.seqlen_k - 1)[0];
      if (kFault == Fault::reads_workspace && *static_cast<char*>(tensors.workspace) == 0) {
        o[0] += 1e-6f;
      }
      if (kFault == Fault::feels_threads) o[0] += 1e-6f * static_cast<float>(state.threads);
      if (kFault == Fault::first_launch_differs && state.launches == 1) o[0] += 1e-6f;
    });
    if (kFault == Fault::writes_past_o) {
      static_cast<float*>(tensors.o)[problem.elements_q()] = 0.0f;
    }
  }

  static void backward(const State& state, const Tensors& tensors) {
    Problem problem = state.problem;
    Tensors given = tensors;
    // These take a second dq, dk and dv, which are thrown away.
    std::vector<float> like_q(static_cast<std::size_t>(problem.elements_q()));
    std::vector<float> like_k(static_cast<std::size_t>(problem.elements_k()));
    const auto differentiate = [&](const Problem& p, const Tensors& t) {
      std::fill_n(static_cast<float*>(t.dq), p.elements_q(), 0.0f);
      std::fill_n(static_cast<float*>(t.dk), p.elements_k(), 0.0f);
      std::fill_n(static_cast<float*>(t.dv), p.elements_k(), 0.0f);
      fake::for_each_row(p, t, [](const fake::Row& row) { fake::differentiate(bent(row)); });
    };
    differentiate(problem, given);
    Problem other = problem;
    ++other.seed;
    if (kFault == Fault::dv_drops_others) {
      std::vector<float> dk(like_k);
      given.dq = like_q.data();
      given.dk = dk.data();
      differentiate(other, given);
    }
    if (kFault == Fault::ds_drops_others) {
      std::vector<float> dv(like_k);
      given.dv = dv.data();
      differentiate(other, given);
    }
    float* dq = static_cast<float*>(tensors.dq);
    if (kFault == Fault::wrong_dq) dq[1] += 1.0f;
    if (kFault == Fault::bends_gradients) dq[0] = std::abs(dq[0]) + 0.1f;
    if (kFault == Fault::gradients_wander && state.launches % 2 == 0) {
      dq[0] += state.deterministic ? 1e-7f : 1.0f;
    }
    if (kFault == Fault::changes_o_in_backward) tensors.o == nullptr ? void() : flip(tensors.o);
  }

  static void flip(void* o) {
    if constexpr (kFault == Fault::changes_o_in_backward) static_cast<unsigned*>(o)[0] ^= 1U;
  }
};

template <Fault kFault>
constexpr Implementation kFake = {.api_version = kApiVersion,
                                  .name = "fake",
                                  .backend = Backend::cpu,
                                  .summary = "loops",
                                  .axes = Fake<kFault>::kAxes,
                                  .num_axes = 1,
                                  .unsupported = Fake<kFault>::unsupported,
                                  .workspace_bytes = Fake<kFault>::workspace_bytes,
                                  .saved_bytes = fake::no_saved,
                                  .prepare = Fake<kFault>::prepare,
                                  .launch = Fake<kFault>::launch,
                                  .release = Fake<kFault>::release,
                                  .traffic = fake::traffic};

Device device() {
  Device cpu = fake::cpu();
  cpu.isa = "none";
  cpu.threads = 2;
  return cpu;
}

std::vector<Result> run(const Implementation& kernel, const std::string& only) {
  const Device cpu = device();
  return verify({.kernels = {&kernel},
                 .device = &cpu,
                 .random = 12,
                 .repeat = 3,
                 .only = only,
                 .longest = 260});
}

// Names a kernel, the checks it is put to, and what catches it.
struct Trap {
  const char* name;
  const Implementation* kernel;
  const char* only;
  const char* check;
};

void PrintTo(const Trap& trap, std::ostream* out) { *out << trap.only; }

template <Fault kFault>
Trap trap(const char* name, const char* only, const char* check) {
  return {name, &kFake<kFault>, only, check};
}

std::vector<Trap> traps() {
  const char* shape = "fake/shapes/unequal/65x200/none/f32/fwdbwd";
  const char* backward = "fake/shapes/packed/causal/dropout0.2/f32/bwd";
  return {
      trap<Fault::dropped_key>("DroppedKey", shape, "oracle: o"),
      trap<Fault::nan_output>("NanOutput", shape, "oracle: o"),
      trap<Fault::forgets_a_row>("ForgetsARow", shape, "oracle: o"),
      trap<Fault::lse_in_log2>("LseInLog2", shape, "oracle: lse"),
      trap<Fault::wrong_dq>("WrongDq", backward, "oracle: dq"),
      trap<Fault::writes_past_o>("WritesPastO", shape, "guards"),
      trap<Fault::writes_past_o>("ForwardOfBackwardWritesPastO", backward, "guards"),
      trap<Fault::writes_before_workspace>("WritesBeforeWorkspace", shape, "guards"),
      trap<Fault::changes_k>("ChangesK", shape, "inputs unchanged"),
      trap<Fault::changes_o_in_backward>("ChangesOInBackward", backward, "inputs unchanged"),
      trap<Fault::throws>("Throws", shape, "exception"),
      trap<Fault::dropped_key>("Random", "fake/random/*/fwd", "oracle: o"),
      trap<Fault::weights_by_position>("PermutedKeys", "*/permuted-keys/none/f32",
                                       "property: permuted-keys"),
      trap<Fault::bends_values>("LinearInV", "*/linear-in-v/*", "property: linear-in-v"),
      trap<Fault::bends_gradients>("LinearInDout", "*/linear-in-dout/*",
                                   "property: linear-in-dout"),
      trap<Fault::feels_lse>("ShiftedKeys", "*/shifted-keys/none/*", "property: shifted-keys"),
      trap<Fault::sees_the_last_key>("CausalPrefix", "*/causal-prefix/53x53/*",
                                     "property: causal-prefix"),
      trap<Fault::other_kv_head>("RepeatedHeads", "*/gqa-is-repeated-kv/4x2/*",
                                 "property: gqa-is-repeated-kv"),
      trap<Fault::next_entry>("PackedIsDense", "*/packed-is-a-loop-of-dense/none/*",
                              "property: packed-is-a-loop-of-dense"),
      trap<Fault::too_large>("ValuesOfOne", "*/v-of-ones/none/*", "property: v-of-ones"),
      trap<Fault::lse_in_log2>("MergedSplits", "*/merged-splits/*", "property: merged-splits"),
      trap<Fault::mean_of_nothing>("NothingVisible", "*/nothing-visible/causal/*",
                                   "property: nothing-visible"),
      trap<Fault::feels_hidden_keys>("HiddenKeys", "*/hidden-keys/padding/*",
                                     "property: hidden-keys"),
      trap<Fault::reads_workspace>("Workspace", "*/workspace-contents/*",
                                   "property: workspace-contents"),
      trap<Fault::changes_o_in_backward>("BackwardLeavesO", "*/backward-leaves-o-and-lse/*",
                                         "inputs unchanged"),
      trap<Fault::feels_threads>("Threads", "*/threads-change-nothing/*",
                                 "property: threads-change-nothing"),
      trap<Fault::forward_drops_others>("DropoutForward", "*/dropout-mask/0.1/none/*",
                                        "property: dropout-mask"),
      trap<Fault::dv_drops_others>("DropoutDv", "*/dropout-mask/0.1/none/*",
                                   "property: dropout-mask"),
      trap<Fault::ds_drops_others>("DropoutDs", "*/dropout-mask/0.1/none/*",
                                   "property: dropout-mask"),
      trap<Fault::drops_more>("KeepRate", "*/dropout-keep-rate/0.1/*",
                              "property: dropout-keep-rate"),
      trap<Fault::first_launch_differs>("Repeats", "*/repeats/dense/fwd", "repeats"),
      trap<Fault::first_launch_differs>("RepeatsOfO", "*/repeats/dense/fwdbwd/any-order",
                                        "repeats"),
      trap<Fault::gradients_wander>("RepeatsOfGradients", "*/repeats/dense/fwdbwd", "repeats"),
      trap<Fault::gradients_wander>("AnyOrderIsHeldToTheOracle", "*/repeats/dense/bwd/any-order",
                                    "oracle: dq"),
  };
}

class VerifierTrap : public testing::TestWithParam<Trap> {};
INSTANTIATE_TEST_SUITE_P(Fault, VerifierTrap, testing::ValuesIn(traps()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST_P(VerifierTrap, IsCaughtByItsCheckAndOnlyIfWrong) {
  const Trap& wrong = GetParam();
  const std::vector<Result> results = run(*wrong.kernel, wrong.only);
  EXPECT_TRUE(std::ranges::any_of(results, [&](const Result& result) {
    return result.outcome == Outcome::failed && result.check == wrong.check;
  })) << (results.empty() ? "nothing ran" : results.front().check + results.front().message);

  int passed = 0;
  for (const Result& result : run(kFake<Fault::none>, wrong.only)) {
    EXPECT_NE(result.outcome, Outcome::failed) << result.check << ": " << result.message;
    passed += result.outcome == Outcome::passed ? 1 : 0;
  }
  EXPECT_GE(passed, 1);
}

// The printed command needs no more than what follows --only and --seed.
TEST(Verifier, AFailureIsMadeAgainFromItsRepro) {
  const Device cpu = device();
  const Options all = {.kernels = {&kFake<Fault::wrong_dq>},
                       .device = &cpu,
                       .parts = {Part::random},
                       .random = 9,
                       .seed = 11,
                       .longest = 160};
  const std::vector<Result> results = verify(all);
  const auto failed = std::ranges::find(results, Outcome::failed, &Result::outcome);
  ASSERT_NE(failed, results.end());
  const std::string want =
      "attnlab verify --backend cpu --kernel fake --isa none --threads 2 "
      "--seed 11 --only " +
      failed->name + " --random 9";
  EXPECT_EQ(failed->repro, want);
  Options again = all;
  again.only = failed->name;
  const std::vector<Result> repeated = verify(again);
  ASSERT_EQ(repeated.size(), 1u);
  EXPECT_EQ(repeated.front().name, failed->name);
  EXPECT_EQ(repeated.front().check, failed->check);
  EXPECT_EQ(repeated.front().message, failed->message);
}

TEST(Verifier, DropsAKernelAfterItsFirstFailureAndGoesOnWithTheOthers) {
  const Device cpu = device();
  Implementation good = kFake<Fault::none>;
  good.name = "good";
  std::vector<std::string> ended;
  const std::vector<Result> results =
      verify({.kernels = {&kFake<Fault::nan_output>, &good},
              .device = &cpu,
              .only = "*/shapes/unequal/*/f32/*",
              .after_failure = AfterFailure::drop_kernel,
              .longest = 260},
             {.ended = [&](const Result& result, double) { ended.push_back(result.name); }});
  const auto of = [&](const std::string& kernel) {
    return std::ranges::count(results, kernel, &Result::kernel);
  };
  EXPECT_EQ(of("fake"), 1);
  EXPECT_GT(of("good"), 10);
  EXPECT_EQ(ended.size(), results.size());
}

TEST(Verifier, AFailureNamesTheConfigThatRan) {
  Implementation kernel = kFake<Fault::dropped_key>;
  kernel.resolved = [](const Problem&, const Config& config, const Device&) {
    Config chosen = config;
    chosen.set("deterministic", 1);
    return chosen;
  };
  const std::vector<Result> results = run(kernel, "fake/shapes/unequal/65x200/none/f32/fwdbwd");
  ASSERT_EQ(results.size(), 1u);
  EXPECT_TRUE(results[0].message.ends_with("; fake deterministic=1, none, 2 threads"))
      << results[0].message;
}

TEST(Verifier, TheForwardBesideABackwardHasItsOwnConfig) {
  using F = Fake<Fault::none>;
  Implementation kernel = kFake<Fault::none>;
  kernel.forward_config = [](const Config& config) {
    Config forward = config;
    forward.set("deterministic", 0);
    return forward;
  };
  kernel.prepare = [](const Problem& problem, const Config& config, const Device& device) {
    const bool is_forward = problem.pass == Pass::fwd;
    if (is_forward == (config.get("deterministic") != 0)) {
      throw std::runtime_error("the config of the other pass");
    }
    return F::prepare(problem, config, device);
  };
  for (const Result& result : run(kernel, "*/backward-leaves-o-and-lse/f32")) {
    EXPECT_EQ(result.outcome, Outcome::passed) << result.message;
  }
}

TEST(Verifier, SaysWhyItSkips) {
  const Device cpu = device();
  const Implementation elsewhere = fake::kOwn;
  const std::vector<Result> results = verify({.kernels = {&elsewhere, &kFake<Fault::none>},
                                              .device = &cpu,
                                              .parts = {Part::shapes, Part::random},
                                              .random = 1,
                                              .only = "*/shapes/heads/bshd/16x1/f16/*"});
  ASSERT_FALSE(results.empty());
  for (const Result& result : results) {
    EXPECT_EQ(result.outcome, Outcome::skipped);
    EXPECT_EQ(result.message, "f32 only");
  }
  const std::vector<Result> of_other = verify({.kernels = {&elsewhere}, .device = &cpu});
  ASSERT_EQ(of_other.size(), 4u);
  for (const Result& result : of_other) {
    EXPECT_EQ(result.message, "runs on cuda, and the device is cpu");
  }
}

// Acts like a kernel of a GPU: it has pieces of 16x16, compiled for each tile. It refuses all but
// f32, so that what it was asked stands in the reason.
constexpr ConfigAxis kPieces[] = {{"block_m", "query rows", 64, 16, 256},
                                  {"block_n", "keys", 64, 16, 256},
                                  {"warps", "warps", 4, 1, 16}};

Implementation compiled_kernel() {
  Implementation kernel = kFake<Fault::none>;
  kernel.axes = kPieces;
  kernel.num_axes = 3;
  kernel.unsupported = [](const Problem& problem, const Config& config, const Device&) {
    if (problem.dtype != Dtype::f32) return config.to_string();
    const bool whole = config.get("block_m") % 16 == 0 && config.get("block_n") % 16 == 0;
    return std::string(whole ? "" : "pieces of 16x16");
  };
  kernel.units = [](const Problem&, const Config&, const Device&) {
    return std::vector<KernelUnit>();
  };
  kernel.configs_to_verify = [] {
    return std::vector<ConfigsToVerify>{
        {.head_dim = 64,
         .dtype = Dtype::f16,
         .configs = {{{"block_m", 16}, {"block_n", 16}}, {{"warps", 2}}}},
        {.head_dim = 128, .dtype = Dtype::bf16, .configs = {{{"block_n", 80}}}}};
  };
  return kernel;
}

TEST(Verifier, WhatIsCompiledRunsTheConfigsThatItNames) {
  const std::vector<Result> results = run(compiled_kernel(), "*/shapes/tiles/*");
  std::set<std::string> configs, passes, head_dims;
  for (const Result& result : results) {
    EXPECT_EQ(result.outcome, Outcome::skipped);
    configs.insert(result.message);
    passes.insert(result.name.substr(result.name.rfind('/') + 1));
    head_dims.insert(result.name.find("/d128/") == std::string::npos ? "64" : "128");
  }
  EXPECT_EQ(results.size(), 3U * 2U * 5U) << "each on five problems, both passes";
  EXPECT_EQ(passes, (std::set<std::string>{"fwd", "bwd"}));
  EXPECT_EQ(head_dims, (std::set<std::string>{"64", "128"}));
  EXPECT_EQ(configs,
            (std::set<std::string>{"block_m=16,block_n=16,warps=4", "block_m=64,block_n=64,warps=2",
                                   "block_m=64,block_n=80,warps=4"}));
}

TEST(Verifier, OddTilesAreForKernelsThatTakeThem) {
  const Device cpu = device();
  const Implementation compiled = compiled_kernel();
  Implementation free = compiled;
  free.units = nullptr;
  const auto names = [&](const Implementation& kernel) {
    return list({.kernels = {&kernel}, .device = &cpu, .only = "*/shapes/tiles/*"});
  };
  EXPECT_EQ(std::ranges::count(names(free), "fake/shapes/tiles/30x50"), 1);
  EXPECT_EQ(std::ranges::count(names(compiled), "fake/shapes/tiles/30x50"), 0);
}

TEST(Verifier, ATileThatIsRefusedIsSkippedWithTheReason) {
  const Implementation kernel = compiled_kernel();
  for (const char* name : {"fake/shapes/lengths/65/none/f32/fwdbwd/48x17",
                           "fake/properties/dropout-mask/0.3/30x50/f32"}) {
    const std::vector<Result> results = run(kernel, name);
    ASSERT_EQ(results.size(), 1U) << name;
    EXPECT_EQ(results[0].outcome, Outcome::skipped);
    EXPECT_EQ(results[0].message, "pieces of 16x16");
  }
}

// Acts like v3's backward on a GPU: it refuses to sum in a fixed order.
template <Fault kFault>
Implementation unordered_kernel() {
  Implementation kernel = kFake<kFault>;
  kernel.unsupported = [](const Problem& problem, const Config& config, const Device&) {
    if (problem.dtype != Dtype::f32) return std::string("f32 only");
    const bool is_refused = problem.runs_backward() && config.get("deterministic") != 0;
    return std::string(is_refused ? "no fixed order" : "");
  };
  return kernel;
}

TEST(Verifier, AKernelWithoutAFixedOrderHasPropertiesAllTheSame) {
  const std::vector<Result> of_masks = run(unordered_kernel<Fault::none>(), "*/hidden-keys/*/f32");
  EXPECT_GE(of_masks.size(), 3U);
  for (const Result& result : of_masks) {
    EXPECT_EQ(result.outcome, Outcome::passed) << result.name << ": " << result.message;
  }
  const char* const hidden = "*/hidden-keys/padding/f32";
  const std::vector<Result> wandering = run(unordered_kernel<Fault::gradients_wander>(), hidden);
  ASSERT_EQ(wandering.size(), 1U);
  EXPECT_EQ(wandering[0].outcome, Outcome::passed) << wandering[0].message;
  const std::vector<Result> feeling = run(unordered_kernel<Fault::feels_hidden_keys>(), hidden);
  ASSERT_EQ(feeling.size(), 1U);
  EXPECT_EQ(feeling[0].check, "property: hidden-keys") << feeling[0].message;
}

// The kernel takes f32 alone, a third of the problems: others are drawn in place of the rest.
TEST(Verifier, EachPassHasAsManyRandomProblemsAsAskedFor) {
  const Device cpu = device();
  const auto names = [&](const std::string& pass) {
    return list({.kernels = {&kFake<Fault::none>},
                 .device = &cpu,
                 .parts = {Part::random},
                 .random = 40,
                 .seed = 1,
                 .only = "*/" + pass});
  };
  for (const char* pass : {"fwd", "bwd", "fwdbwd"}) {
    const std::vector<std::string> problems = names(pass);
    EXPECT_EQ(problems.size(), 40u) << pass;
    EXPECT_NE(problems.back(), "fake/random/1/39/" + std::string(pass));
  }
}

// Problems of e4m3 come beside the others, which stay as they are.
TEST(Verifier, KernelsThatHaveE4m3GetItsRandomProblemsPropertiesAndRepeats) {
  const Device cpu = device();
  Implementation kernel = kFake<Fault::none>;
  kernel.unsupported = [](const Problem&, const Config&, const Device&) { return std::string(); };
  const auto names = [&](const std::string& only) {
    return list({.kernels = {&kernel}, .device = &cpu, .random = 40, .only = only});
  };
  const std::vector<std::string> random = names("*/random/*");
  EXPECT_EQ(random.size(), 3U * 40U);
  EXPECT_TRUE(names("*e4m3*").empty());
  kernel.has_e4m3 = true;
  std::vector<std::string> more = names("*/random/*");
  EXPECT_EQ(
      std::erase_if(
          more, [](const std::string& name) { return name.find("/e4m3/") != std::string::npos; }),
      40U);
  EXPECT_EQ(more, random);
  EXPECT_EQ(names("fake/random/e4m3/7/13/fwd").size(), 1U);
  EXPECT_EQ(names("*/properties/permuted-keys/*/e4m3").size(), 2U);
  EXPECT_EQ(names("*/repeats/e4m3/*").size(), 3U);
}

// Sums that are not promoted lose more of a V of mean 1 than the bounds know.
TEST(Verifier, OnlyPromotedSumsGetAVOfMeanOne) {
  const Device cpu = device();
  Implementation kernel = kFake<Fault::none>;
  kernel.has_e4m3 = true;
  kernel.unsupported = [](const Problem&, const Config&, const Device&) { return std::string(); };
  // Returns how many problems of such a V there are if the axis `promote` is this by default, and
  // at the most.
  const auto problems_of_mean_one = [&](int by_default, int at_most) {
    const ConfigAxis promote = {"promote", "1: sums in fp32", by_default, 0, at_most,
                                {},        AxisRole::promotes};
    kernel.axes = &promote;
    kernel.num_axes = 1;
    const std::vector<std::string> names = list({.kernels = {&kernel},
                                                 .device = &cpu,
                                                 .parts = {Part::random},
                                                 .random = 100,
                                                 .seed = 1,
                                                 .only = "*/e4m3/*"});
    EXPECT_EQ(names.size(), 100U);
    return std::ranges::count_if(names, [](const std::string& name) {
      const std::string index = name.substr(std::string("fake/random/e4m3/1/").size());
      const InputKind kind = draw_e4m3_problem(1, std::stoll(index), Options{}.longest).kind;
      return kind == InputKind::v_one || kind == InputKind::v_mean_one;
    });
  };
  EXPECT_EQ(problems_of_mean_one(0, 0), 0);
  EXPECT_GT(problems_of_mean_one(1, 1), 10);
  EXPECT_GT(problems_of_mean_one(0, 1), 10) << "others are drawn until one promotes";
}

// This kernel is compiled for each head dim and mask: there are hundreds of them in the first
// problems.
TEST(Verifier, RandomProblemsHaveFewCompiled) {
  const Device cpu = device();
  Implementation kernel = kFake<Fault::none>;
  kernel.units = [](const Problem& problem, const Config&, const Device&) {
    return std::vector<KernelUnit>{
        {.name = std::to_string(problem.head_dim) + to_string(problem.mask)}};
  };
  const std::vector<std::string> names = list({.kernels = {&kernel},
                                               .device = &cpu,
                                               .parts = {Part::random},
                                               .random = 100,
                                               .seed = 1,
                                               .only = "*/fwd"});
  EXPECT_EQ(names.size(), 100U);
  std::set<std::string> compiled;
  for (const std::string& name : names) {  // fake/random/1/INDEX/fwd
    const std::string index = name.substr(std::string("fake/random/1/").size());
    const Problem problem = draw_problem(1, std::stoll(index), Options{}.longest).problem;
    compiled.insert(kernel.units(problem, {}, cpu).front().name);
  }
  EXPECT_EQ(compiled.size(), 24U);
}

// It is told once, before anything is planned or run, with each unit once: those of shapes, random
// problems, properties and repeats, and for a backward also of the forward before it.
TEST(Verifier, WhatTheChecksNeedIsKnownBeforeTheFirst) {
  const Device cpu = device();
  Implementation kernel = kFake<Fault::none>;
  kernel.units = [](const Problem& problem, const Config&, const Device&) {
    return std::vector<KernelUnit>{{.name = to_string(problem.pass)}};
  };
  std::vector<std::string> seen;
  Observer observer;
  observer.compile = [&](const std::vector<CompileJob>& jobs) {
    for (const CompileJob& job : jobs) seen.push_back(job.unit.name);
  };
  observer.planned = [&](double) { seen.emplace_back("planned"); };
  const auto needed = [&](const Implementation& asked, const std::string& only) {
    seen.clear();
    verify({.kernels = {&asked}, .device = &cpu, .random = 4, .repeat = 2, .only = only}, observer);
    return seen;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(needed(kernel, "fake/shapes/packed/causal/dropout0.2/f32/bwd"),
            (Names{"fwd", "bwd", "planned"}));
  EXPECT_EQ(needed(kernel, "*/permuted-keys/none/f32"), (Names{"fwdbwd", "planned"}));
  EXPECT_EQ(needed(kernel, "fake/random/*/fwd"), (Names{"fwd", "planned"}));
  EXPECT_EQ(needed(kernel, "fake/repeats/*/fwd"), (Names{"fwd", "planned"}));
  EXPECT_EQ(needed(kFake<Fault::none>, "fake/random/*/fwd"), Names{"planned"}) << "nothing";
}

TEST(Verifier, NamesAreUnique) {
  const Device cpu = device();
  std::vector<std::string> names = list({.kernels = {&kFake<Fault::none>}, .device = &cpu});
  EXPECT_GT(names.size(), 1000u);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  EXPECT_EQ(twice, names.end()) << *twice;
}

TEST(Verifier, Globs) {
  EXPECT_TRUE(matches_glob("v2/random/7/13/bwd", "v2/random/7/13/bwd"));
  EXPECT_FALSE(matches_glob("v2/random/7/1", "v2/random/7/13/bwd"));
  EXPECT_TRUE(matches_glob("*/random/*/bwd", "v2/random/7/13/bwd"));
  EXPECT_TRUE(matches_glob("v?/*", "v2/random"));
  EXPECT_TRUE(matches_glob("*a*b*", "xxaxxabx"));
  EXPECT_FALSE(matches_glob("*a*b*c", "xxaxxabx"));
  EXPECT_TRUE(matches_glob("**", ""));
  EXPECT_FALSE(matches_glob("?", ""));
}

}  // namespace
}  // namespace attnlab::verify
