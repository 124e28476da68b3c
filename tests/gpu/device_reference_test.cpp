// The reference on a device says what the oracle says of every element, on shapes that the oracle
// can look at as a whole, and judges outputs as it does.
#include "reference/device_reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/plan/accounting.h"
#include "harness/plan/lengths.h"
#include "harness/tensors/arena.h"
#include "harness/tensors/inputs.h"
#include "kernels/shared/convert.h"
#include "reference/nan_scan.h"
#include "reference/oracle.h"
#include "reference/tolerance.h"
#include "tests/gpu/gpu_fixture.h"

namespace attnlab {
namespace {

using reference::Expected;
using reference::Products;
using reference::Side;
using reference::Verdict;

struct ReferenceCase {
  const char* name;
  Problem problem;
  Products products = Products::storage;
  InputKind kind = InputKind::normal;
};

void PrintTo(const ReferenceCase& what, std::ostream* stream) { *stream << what.name; }

// Returns the kernels of the reference. The table of mutants names a file: a text of them that is
// wrong, which this test alone takes, so nothing that a user can set makes a judge wrong.
KernelUnit unit_under_test() {
  KernelUnit unit = reference::device_reference_unit();
  const char* const file = std::getenv("ATTNLAB_TEST_DEVICE_REFERENCE");
  if (file == nullptr) return unit;
  const std::string include = "#include \"reference/device_kernels.cuh\"\n";
  std::ifstream stream(file);
  std::ostringstream text;
  if (!(text << stream.rdbuf())) throw std::runtime_error(std::string(file) + " is not readable");
  unit.source.replace(unit.source.find(include), include.size(), text.str());
  return unit;
}

// OutputPair is the same output in memory of the process and of the device.
class OutputPair {
 public:
  OutputPair(Arena& arena, Dtype dtype, std::string name, std::uint64_t bytes)
      : runtime_(arena.runtime()),
        dtype_(dtype),
        host_(bytes),
        device_(arena.allocate(std::move(name), bytes)) {}

  void set(std::int64_t index, double value) {
    const auto single = static_cast<float>(value);
    if (dtype_ == Dtype::f32) return put(index, single);
    put(index, dtype_ == Dtype::f16 ? f16_from_f32(single) : bf16_from_f32(single));
  }
  void send() { runtime_.write(device_.get(), host_.data(), host_.size()); }

  void* host() { return host_.data(); }
  void* device() { return device_.get(); }

 private:
  template <class T>
  void put(std::int64_t index, T value) {
    std::memcpy(host_.data() + index * static_cast<std::int64_t>(sizeof value), &value,
                sizeof value);
  }

  Runtime& runtime_;
  Dtype dtype_;
  std::vector<std::byte> host_;
  Arena::Buffer device_;
};

class DeviceReferenceTest : public GpuTest, public testing::WithParamInterface<ReferenceCase> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    problem_ = GetParam().problem;
    problem_.lengths = make_lengths(problem_);
    calculator_ = make_calculator(gpu(), unit_under_test());
    arena_ = std::make_unique<Arena>(runtime());
    inputs_ = std::make_unique<Inputs>(*arena_, problem_, GetParam().kind, 7, 2);
    const Products products = GetParam().products;
    oracle_ = reference::make_references(
        problem_, inputs_->host(),
        reference::choose_samples(problem_, std::int64_t{1} << 40, problem_.seed), 2, products);
    device_ = std::make_unique<reference::DeviceReference>(problem_, inputs_->tensors(), products,
                                                           reference::all_groups(problem_),
                                                           runtime(), *calculator_, kChunkElements);
  }

  // Makes what the oracle expects of the outputs, rounded to the storage type.
  void make_outputs() {
    const auto make = [&](const char* name, Dtype dtype, std::uint64_t bytes) {
      return std::make_unique<OutputPair>(*arena_, dtype, name, bytes);
    };
    o_ = make("o", problem_.output_dtype(), bytes_of_o(problem_));
    lse_ = make("lse", Dtype::f32, bytes_of_lse(problem_));
    dq_ = make("dq", problem_.dtype, bytes_like_q(problem_));
    dk_ = make("dk", problem_.dtype, bytes_like_k(problem_));
    dv_ = make("dv", problem_.dtype, bytes_like_k(problem_));
    for (const reference::RowReference& rows : oracle_.rows) {
      const reference::Sample& at = rows.sample;
      for (std::size_t i = 0; i < at.rows.size(); ++i) {
        const auto index = static_cast<Eigen::Index>(i);
        lse_->set(reference::lse_offset(problem_, at.batch, at.head, at.rows[i]), rows.lse(index));
        set_row(*o_, rows.o, index, Side::query, at.batch, at.head, at.rows[i]);
        if (problem_.pass == Pass::fwd) continue;
        set_row(*dq_, rows.dq, index, Side::query, at.batch, at.head, at.rows[i]);
      }
    }
    for (const reference::ColumnReference& keys : oracle_.columns) {
      const reference::ColumnSample& at = keys.sample;
      for (std::size_t i = 0; i < at.keys.size(); ++i) {
        const auto index = static_cast<Eigen::Index>(i);
        set_row(*dk_, keys.dk, index, Side::key, at.batch, at.head_kv, at.keys[i]);
        set_row(*dv_, keys.dv, index, Side::key, at.batch, at.head_kv, at.keys[i]);
      }
    }
  }
  void set_row(OutputPair& output, const Expected& expected, Eigen::Index index, Side side,
               std::int64_t batch, std::int64_t head, std::int64_t row) {
    const std::int64_t first = reference::row_offset(problem_, side, batch, head, row);
    for (std::int64_t d = 0; d < problem_.head_dim; ++d) {
      output.set(first + d, expected.value(index, d));
    }
  }

  Tensors outputs(bool on_device) const {
    const auto data = [&](OutputPair& output) {
      return on_device ? output.device() : output.host();
    };
    return {.o = data(*o_),
            .lse = static_cast<float*>(data(*lse_)),
            .dq = data(*dq_),
            .dk = data(*dk_),
            .dv = data(*dv_)};
  }

  // Judge on the device, and by the oracle.
  std::vector<Verdict> judge_on_device() {
    for (OutputPair* output : {o_.get(), lse_.get(), dq_.get(), dk_.get(), dv_.get()}) {
      output->send();
    }
    return device_->judge(problem_, outputs(true));
  }
  std::vector<Verdict> judge_by_oracle() {
    return reference::judge(problem_, outputs(false), oracle_);
  }

  struct Fault {
    const char* tensor;
    std::unique_ptr<OutputPair>& output;
    Side side;
    std::int64_t at = 0;
    bool exists = false;
  };
  std::vector<Fault> faults();
  static Verdict verdict_on(const Fault& fault, const std::vector<Verdict>& verdicts);

  void expect_the_rows();
  void expect_the_weights();
  void expect_refusals();
  void expect_nan_elsewhere();

  // They make three chunks of rows, the last of them short.
  static constexpr std::int64_t kChunkElements = 16 * 45;

  Problem problem_;
  std::unique_ptr<Calculator> calculator_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Inputs> inputs_;
  reference::References oracle_;
  std::unique_ptr<reference::DeviceReference> device_;
  std::unique_ptr<OutputPair> o_, lse_, dq_, dk_, dv_;
};

void DeviceReferenceTest::expect_the_rows() {
  const std::vector<reference::RowReference>& rows = device_->rows().rows;
  ASSERT_EQ(rows.size(), oracle_.rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const reference::RowReference& want = oracle_.rows[i];
    ASSERT_EQ(rows[i].sample.batch, want.sample.batch);
    ASSERT_EQ(rows[i].sample.head, want.sample.head);
    ASSERT_EQ(rows[i].sample.rows, want.sample.rows);
    for (Eigen::Index row = 0; row < want.lse.size(); ++row) {
      const double size = 1.0 + static_cast<double>(want.score_bound(row));
      if (std::isinf(want.lse(row))) {
        EXPECT_EQ(rows[i].lse(row), want.lse(row)) << row;
        EXPECT_EQ(rows[i].lse_twin(row), want.lse_twin(row)) << row;
        EXPECT_EQ(rows[i].score_bound(row), 0.0f) << row;
        continue;
      }
      EXPECT_NEAR(rows[i].lse(row), want.lse(row), 1e-13 * size) << row;
      EXPECT_NEAR(rows[i].score_bound(row), want.score_bound(row), 1e-5 * size) << row;
    }
  }
}

// Returns what the bound of a tensor's largest error has beside the twin's largest
// (reference/tolerance.h): nothing of it depends on an order of sums.
double beside_the_twin(const Verdict& verdict) {
  if (verdict.tensor == "lse") return verdict.bound;
  const double factor = verdict.tensor == "o" ? 2.0 : 3.0;
  return verdict.bound - factor * verdict.max_abs / verdict.ratio_to_twin;
}

// Errors of outputs that are right but for one rounding, and of the twin, are the same numbers.
void DeviceReferenceTest::expect_the_weights() {
  make_outputs();
  const std::vector<Verdict> got = judge_on_device(), want = judge_by_oracle();
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(want[i].tensor);
    EXPECT_TRUE(want[i].pass) << want[i].message;
    EXPECT_TRUE(got[i].pass) << got[i].message;
    EXPECT_EQ(got[i].tensor, want[i].tensor);
    EXPECT_EQ(got[i].coverage, 1.0);
    EXPECT_NEAR(got[i].max_abs, want[i].max_abs, 1e-9 + 1e-3 * want[i].max_abs);
    EXPECT_NEAR(got[i].rel_fro, want[i].rel_fro, 1e-11 + 1e-3 * want[i].rel_fro);
    // The twins' sums have other orders, so their errors are alike, not the same. In f32 they are
    // nothing but that, and of large scores in five rows the largest is luck.
    const bool is_rounded = problem_.dtype != Dtype::f32;
    const double alike = is_rounded                                      ? 0.05
                         : GetParam().kind == InputKind::outlier_channel ? 1.0
                                                                         : 0.25;
    EXPECT_NEAR(got[i].bound, want[i].bound, alike * want[i].bound);
    if (!is_rounded) {
      const double rest = beside_the_twin(want[i]);
      EXPECT_NEAR(beside_the_twin(got[i]), rest, 1e-3 * rest);
    }
    ASSERT_EQ(got[i].rmse_unquantised.has_value(), want[i].rmse_unquantised.has_value());
    if (want[i].rmse_unquantised) {
      EXPECT_NEAR(*got[i].rmse_unquantised, *want[i].rmse_unquantised, 1e-9);
    }
    if (want[i].rms_to_twin && is_rounded) {
      EXPECT_NEAR(*got[i].rms_to_twin, *want[i].rms_to_twin, 0.05 * *want[i].rms_to_twin);
      EXPECT_NEAR(*got[i].row_share, *want[i].row_share, 0.05 * *want[i].row_share);
      EXPECT_NEAR(*got[i].slope_share, *want[i].slope_share, 0.05 * *want[i].slope_share);
    }
  }
}

// Returns where something may be wrong: the last element of an output.
std::vector<DeviceReferenceTest::Fault> DeviceReferenceTest::faults() {
  std::vector<Fault> faults;
  if (problem_.pass != Pass::bwd) faults.push_back({"o", o_, Side::query});
  if (problem_.pass != Pass::fwd) {
    faults.push_back({"dq", dq_, Side::query});
    faults.push_back({"dk", dk_, Side::key});
    faults.push_back({"dv", dv_, Side::key});
  }
  const std::int64_t batch = problem_.batch - 1;
  for (Fault& fault : faults) {
    const bool of_rows = fault.side == Side::query;
    const std::int64_t head = (of_rows ? problem_.num_heads_q : problem_.num_heads_kv) - 1;
    const std::int64_t row = (of_rows ? problem_.queries(batch) : problem_.keys(batch)) - 1;
    fault.at =
        reference::row_offset(problem_, fault.side, batch, head, row) + problem_.head_dim - 1;
    fault.exists = row >= 0;
  }
  return faults;
}

Verdict DeviceReferenceTest::verdict_on(const Fault& fault, const std::vector<Verdict>& verdicts) {
  const auto found = std::ranges::find(verdicts, fault.tensor, &Verdict::tensor);
  return found == verdicts.end() ? Verdict{} : *found;
}

// An output that is off anywhere fails, and the message says where as the oracle's does.
void DeviceReferenceTest::expect_refusals() {
  for (const Fault& fault : faults()) {
    if (!fault.exists) continue;
    SCOPED_TRACE(fault.tensor);
    make_outputs();
    fault.output->set(fault.at, 100.0);
    const Verdict got = verdict_on(fault, judge_on_device());
    const Verdict want = verdict_on(fault, judge_by_oracle());
    EXPECT_FALSE(got.pass);
    EXPECT_FALSE(want.pass);
    EXPECT_EQ(got.message.substr(0, got.message.find(": got")),
              want.message.substr(0, want.message.find(": got")));
    fault.output->set(fault.at, std::nan(""));
    const Verdict got_nan = verdict_on(fault, judge_on_device());
    const Verdict want_nan = verdict_on(fault, judge_by_oracle());
    EXPECT_FALSE(got_nan.pass);
    EXPECT_EQ(got_nan.max_abs, want_nan.max_abs);
  }
}

// One NaN in the last entry fails an output of which the first entry alone is compared.
void DeviceReferenceTest::expect_nan_elsewhere() {
  if (problem_.batch < 2) return;
  device_ = std::make_unique<reference::DeviceReference>(
      problem_, inputs_->tensors(), GetParam().products,
      std::vector<reference::Group>{{.batch = 0, .head_kv = 0}}, runtime(), *calculator_,
      kChunkElements);
  for (const Fault& fault : faults()) {
    if (!fault.exists) continue;
    SCOPED_TRACE(fault.tensor);
    make_outputs();
    EXPECT_TRUE(verdict_on(fault, judge_on_device()).pass);
    fault.output->set(fault.at, std::nan(""));
    const Verdict got = verdict_on(fault, judge_on_device());
    EXPECT_EQ(got.failed_bound, "nan");
    EXPECT_EQ(got.message,
              reference::find_nan(problem_, fault.tensor, fault.side, fault.output->host()) + "; " +
                  problem_.id());
  }
}

TEST_P(DeviceReferenceTest, SaysWhatTheOracleSays) {
  expect_the_rows();
  expect_the_weights();
  expect_refusals();
  expect_nan_elsewhere();
}

Problem problem_of(Pass pass, Dtype dtype, const char* mask, Layout layout = Layout::bshd,
                   double dropout = 0.0) {
  Problem problem = {.pass = pass,
                     .dtype = dtype,
                     .batch = 2,
                     .num_heads_q = 2,
                     .num_heads_kv = 1,
                     .seqlen_q = 38,
                     .seqlen_k = 45,
                     .head_dim = 24,
                     .mask = parse_mask(mask),
                     .dropout = dropout,
                     .seed = 11,
                     .layout = layout};
  if (problem.has_pattern()) problem.seqlen_q = problem.seqlen_k;
  return problem;
}

// There are more keys than a block has threads, more columns than a warp has lanes.
Problem wide_problem(Dtype dtype) {
  Problem problem = problem_of(Pass::fwdbwd, dtype, "causal");
  problem.batch = 1;
  problem.seqlen_q = 5;
  problem.seqlen_k = 300;
  problem.head_dim = 40;
  return problem;
}

// Returns a problem that e4m3 holds badly: nothing is rotated, and all rows share a scale.
Problem outlier_problem() {
  Problem problem = wide_problem(Dtype::e4m3);
  problem.pass = Pass::fwd;
  problem.quantisation = {ScaleOf::tensor, ScaleOf::tensor, false};
  return problem;
}

INSTANTIATE_TEST_SUITE_P(
    Every, DeviceReferenceTest,
    testing::Values(
        ReferenceCase{"fwd_f16_none", problem_of(Pass::fwd, Dtype::f16, "none")},
        ReferenceCase{"fwd_f32_window", problem_of(Pass::fwd, Dtype::f32, "window:20:9")},
        ReferenceCase{"fwd_bf16_padding",
                      problem_of(Pass::fwd, Dtype::bf16, "padding+causal", Layout::bhsd)},
        ReferenceCase{"fwdbwd_f16_causal", problem_of(Pass::fwdbwd, Dtype::f16, "causal")},
        ReferenceCase{"bwd_f32_packed",
                      problem_of(Pass::bwd, Dtype::f32, "causal", Layout::packed)},
        ReferenceCase{"bwd_bf16_dropout",
                      problem_of(Pass::bwd, Dtype::bf16, "none", Layout::bhsd, 0.2)},
        ReferenceCase{"fwdbwd_f16_dropout_window",
                      problem_of(Pass::fwdbwd, Dtype::f16, "window:-1:3", Layout::bshd, 0.5)},
        ReferenceCase{"fwdbwd_f16_pattern",
                      problem_of(Pass::fwdbwd, Dtype::f16, "blocks:local:1:16x16")},
        ReferenceCase{"fwdbwd_bf16_wide", wide_problem(Dtype::bf16)},
        ReferenceCase{"fwd_e4m3_causal", problem_of(Pass::fwd, Dtype::e4m3, "causal")},
        ReferenceCase{"fwd_e4m3_packed",
                      problem_of(Pass::fwd, Dtype::e4m3, "none", Layout::packed)},
        ReferenceCase{"fwd_e4m3_outlier", outlier_problem(), Products::unpromoted,
                      InputKind::outlier},
        ReferenceCase{"fwdbwd_tf32", problem_of(Pass::fwdbwd, Dtype::f32, "causal"),
                      Products::tf32},
        ReferenceCase{"fwdbwd_bf16_integers", problem_of(Pass::fwdbwd, Dtype::bf16, "none"),
                      Products::storage, InputKind::integers},
        ReferenceCase{"fwdbwd_f32_outlier_channel", wide_problem(Dtype::f32), Products::storage,
                      InputKind::outlier_channel}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace attnlab
