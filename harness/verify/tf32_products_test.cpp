// A kernel with products in TF32 is judged as such by a run and by the verifier: with tf32=1 it
// passes, and where it claims to be exact it fails, beside the other in one case.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "harness/run/case_steps.h"
#include "harness/run/context.h"
#include "harness/run/run.h"
#include "harness/testing/fake_attention.h"
#include "harness/testing/fake_kernels.h"
#include "harness/testing/test_support.h"
#include "harness/verify/relation.h"
#include "reference/storage.h"

namespace attnlab {
namespace {

constexpr ConfigAxis kAxes[] = {
    {"tf32", "what it says of its products", 0, 0, 1, {}, AxisRole::tf32_products}};

struct State : PreparedKernel {
  Problem problem;
};

std::string anything(const Problem&, const Config&, const Device&) { return ""; }
PreparedKernel* prepare(const Problem& problem, const Config&, const Device&) {
  return new State{{}, problem};
}
void release(PreparedKernel* prepared) { delete static_cast<State*>(prepared); }

std::vector<float> rounded(const void* data, std::int64_t elements) {
  const auto* const values = static_cast<const float*>(data);
  std::vector<float> result(values, values + elements);
  for (float& value : result) value = reference::round_to_tf32(value);
  return result;
}

// Rounds q, k and v to TF32 for its products, whatever the config says.
void launch(PreparedKernel* prepared, const Tensors& tensors, void*) {
  const Problem& problem = static_cast<State*>(prepared)->problem;
  const std::vector<float> q = rounded(tensors.q, problem.elements_q());
  const std::vector<float> k = rounded(tensors.k, problem.elements_k());
  const std::vector<float> v = rounded(tensors.v, problem.elements_k());
  Tensors in_tf32 = tensors;
  in_tf32.q = q.data();
  in_tf32.k = k.data();
  in_tf32.v = v.data();
  fake::for_each_row(problem, in_tf32,
                     [](const fake::Row& row) { fake::attend(row, row.mask.seqlen_k); });
}

constexpr Implementation make_kernel() {
  Implementation kernel = fake::make("rounds", Backend::cpu, false);
  kernel.axes = kAxes;
  kernel.num_axes = 1;
  kernel.unsupported = anything;
  kernel.prepare = prepare;
  kernel.launch = launch;
  kernel.release = release;
  return kernel;
}
constexpr Implementation kRounds = make_kernel();

const Problem kProblem = {.num_heads_q = 2, .num_heads_kv = 2, .seqlen_q = 40, .seqlen_k = 64};
const Device kDevice = {.isa = "scalar"};

Config config_of(std::int64_t tf32) {
  Config config;
  config.set("tf32", tf32);
  return config;
}

TEST(Tf32Products, ACaseJudgesEachCompetitorByItsOwn) {
  Case work = {.problem = kProblem, .seed = 7};
  for (const std::int64_t tf32 : {0, 1}) {
    work.competitors.push_back(
        {.kernel = "rounds", .implementation = &kRounds, .config = config_of(tf32)});
  }
  RunContext context{.device = &kDevice};
  context.protocol = {.min_rounds = 2, .max_rounds = 2, .warmup_seconds = 0.0};
  context.memory_limit_bytes = std::uint64_t{1} << 30;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  Progress progress(file.get(), case_weight(work, context.protocol));
  std::vector<Record> records;
  run_case(work, context, progress, [&](const std::vector<Record>& finished) {
    records.insert(records.end(), finished.begin(), finished.end());
  });
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].status, Status::failed);
  EXPECT_PRED2(contains, records[0].reason, "o: batch 0");
  EXPECT_PRED2(contains, records[0].reason, " --tf32 0");
  EXPECT_EQ(records[1].status, Status::ok) << records[1].reason;
}

TEST(Tf32Products, TheVerifierJudgesASetupByItsOwn) {
  verify::Subject subject(kProblem, InputKind::normal, 7, kDevice);
  for (const std::int64_t tf32 : {0, 1}) {
    const verify::Setup setup{
        .kernel = &kRounds, .config = config_of(tf32), .device = kDevice, .pass = Pass::fwd};
    verify::Trial trial(subject, setup);
    trial.launch();
    std::string failed;
    try {
      trial.judge();
    } catch (const verify::Failure& failure) {
      failed = failure.check;
    }
    EXPECT_EQ(failed, tf32 == 1 ? "" : "oracle: o");
  }
}

// The bounds of properties follow the products, too.
TEST(Tf32Products, ThePropertiesBoundsAreThoseOfTheProducts) {
  verify::Subject subject(kProblem, InputKind::normal, 7, kDevice);
  const auto run_with = [&](std::int64_t tf32) {
    return verify::run(
        subject,
        {.kernel = &kRounds, .config = config_of(tf32), .device = kDevice, .pass = Pass::fwd},
        verify::Bounds::of_the_rule);
  };
  const verify::Run exact = run_with(0), tf32 = run_with(1);
  EXPECT_GT(tf32.bound_o, 20.0 * exact.bound_o);
  EXPECT_GT(tf32.bound(verify::Output::lse, 0, 1, 5),
            20.0 * exact.bound(verify::Output::lse, 0, 1, 5));
}

}  // namespace
}  // namespace attnlab
