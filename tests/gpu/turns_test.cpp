// Tests v3's backward where dQ is summed in a fixed order: it is right, and its bits are the same
// at every launch. There are more work items than blocks run at once on the emulated GPU; where it
// runs one at a time (emulated.turns_on_one) nobody can wait for an item that has not begun.
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "harness/verify/trial.h"
#include "harness/verify/values.h"
#include "tests/gpu/gpu_fixture.h"

namespace attnlab {
namespace {

struct TurnsCase {
  const char* name;
  std::int64_t head_dim;
  const char* mask = "none";
  std::int64_t seqlen_q = 300;
  std::int64_t seqlen_k = 500;
  std::int64_t heads_q = 2;
  std::int64_t heads_kv = 1;
  bool beyond_lse = false;
  std::vector<std::int64_t> queries = {};  // of packed entries
  std::vector<std::int64_t> keys = {};
  double dropout = 0.0;
};

void PrintTo(const TurnsCase& what, std::ostream* stream) { *stream << what.name; }

Problem problem_of(const TurnsCase& what) {
  Problem problem = {.dtype = Dtype::f16,
                     .batch = 1,
                     .num_heads_q = what.heads_q,
                     .num_heads_kv = what.heads_kv,
                     .seqlen_q = what.seqlen_q,
                     .seqlen_k = what.seqlen_k,
                     .head_dim = what.head_dim,
                     .mask = parse_mask(what.mask),
                     .dropout = what.dropout};
  if (!what.queries.empty()) pack(problem, what.queries, what.keys);
  return problem;
}

// Gives every logit of head_dim 64 the same large part, so that lse does not hold them, and
// backward_again adds to dQ; softmax leaves it out, and all keys count.
void raise_logits(Inputs& inputs) {
  constexpr float kRaise = 96.0f;
  for (const InputTensor tensor : {InputTensor::q, InputTensor::k}) {
    const verify::Values old = verify::read_input(inputs, tensor);
    inputs.fill(tensor, [&](auto b, auto head, auto row, auto column) {
      return column == 0 ? kRaise : old.at(b, head, row, column);
    });
  }
}

class V3Turns : public GpuTest, public testing::WithParamInterface<TurnsCase> {
 protected:
  // Returns what is wrong about the first of so many launches that goes wrong, or nothing.
  static std::string first_failure_of(verify::Subject& subject, const verify::Setup& setup,
                                      int launches) {
    try {
      verify::Trial trial(subject, setup);
      trial.launch();
      trial.judge();
      const Outputs first = trial.take_outputs();
      for (int launch = 2; launch <= launches; ++launch) {
        trial.launch(launch % 2 == 0 ? verify::Fill::as_left : verify::Fill::nan);
        for (const std::string& name : trial.outputs().different(first)) {
          return "launch " + std::to_string(launch) + ": " + name + " has other bits";
        }
      }
    } catch (const verify::Failure& failure) {
      return failure.check + ": " + failure.message;
    } catch (const DeviceLost& lost) {  // where all wait for ever
      return lost.what();
    }
    return "";
  }
};

TEST_P(V3Turns, GiveRightSumsAndTheSameBits) {
  const bool is_emulated = std::getenv("ATTNLAB_EMULATED") != nullptr;
  const int launches = is_emulated ? 4 : 200;
  const Implementation& kernel = *builtin_registry().find("v3", Backend::cuda);
  Config config = default_config(kernel);
  config.set("deterministic", 1);
  verify::Subject subject(problem_of(GetParam()), InputKind::normal, 5, gpu(),
                          GetParam().beyond_lse ? raise_logits : verify::Subject::Edit());
  subject.wants_backward();
  const verify::Setup setup = {&kernel, config, gpu(), Pass::bwd};
  if (const std::string why = verify::unsupported(setup, subject.problem()); !why.empty()) {
    GTEST_SKIP() << why;
  }
  EXPECT_EQ(first_failure_of(subject, setup, launches), "");
}

INSTANTIATE_TEST_SUITE_P(
    Cases, V3Turns,
    testing::Values(TurnsCase{"d64_causal", 64, "causal", 300, 600},
                    TurnsCase{"d64_window", 64, "window:150:20", 500, 500},
                    TurnsCase{"d64_blocks", 64, "blocks:butterfly:64x64", 600, 600},
                    TurnsCase{"d128_causal", 128, "causal", 260, 500, 4, 2},
                    TurnsCase{.name = "d128_packed",
                              .head_dim = 128,
                              .mask = "window:200:50",
                              .seqlen_q = 300,
                              .seqlen_k = 400,
                              .queries = {70, 1, 300, 0},
                              .keys = {55, 170, 400, 300}},
                    TurnsCase{"d256", 256, "none", 130, 500},
                    TurnsCase{"d256_window", 256, "window:100:30", 200, 250},
                    TurnsCase{"d64_beyond_lse", 64, "causal", 150, 300, 2, 1, true}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace attnlab
