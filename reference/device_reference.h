// Is the reference on a device: attention in double, materialized some rows of a slice at a time,
// with its twin and the sums that the tolerance rule weighs, for every element of every output. So
// a kernel is held to all that it computes, at sizes at which the oracle can look at a few rows
// alone. The oracle judges it on small shapes (tests/gpu/device_reference_test.cpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/api/calculator.h"
#include "kernels/api/problem.h"
#include "kernels/api/runtime.h"
#include "kernels/api/tensors.h"
#include "reference/comparison.h"
#include "reference/device_work.h"
#include "reference/references.h"
#include "reference/tolerance.h"
#include "reference/verdict.h"

namespace attnlab::reference {

// Group is one K/V head of an entry, with the query heads that share it.
struct Group {
  std::int64_t batch = 0;
  std::int64_t head_kv = 0;
};
std::vector<Group> all_groups(const Problem& problem);

// Returns the bytes of device memory that the references of these groups take while they are made,
// in all; afterwards they take a part of them.
std::uint64_t device_reference_bytes(const Problem& problem, const std::vector<Group>& groups);

class DeviceReference {
 public:
  // Makes the references of all outputs of problem.pass in some groups, each at most once. q, k, v
  // and, unless problem.pass is fwd, dout of `inputs` lie in memory of `runtime`, on whose device
  // the calculator computes device_reference_unit(). Both outlive the object. Throws std::bad_alloc
  // where memory is short, and what make_references() throws. Matrices of scores have
  // `chunk_elements` at a time, or one row.
  DeviceReference(const Problem& problem, const Tensors& inputs, Products products,
                  const std::vector<Group>& groups, Runtime& runtime, Calculator& calculator,
                  std::int64_t chunk_elements = kChunkElements);

  // Judges as reference::judge() does with all rows and keys of the groups. `outputs` lie in memory
  // of the runtime. The problem is that of the references but for its layout, which is that of the
  // outputs.
  std::vector<Verdict> judge(const Problem& problem, const Tensors& outputs);

  // Returns the lse expected in all rows, and which rows of which slices; the matrices are empty.
  const References& rows() const { return rows_; }

 private:
  std::vector<device::RowStatistics> compare(const Problem& problem, Side side,
                                             const DeviceExpected& expected,
                                             device::DeltaForm delta_form, double scale,
                                             const void* output);
  Comparison join(Side side, const DeviceExpected& expected,
                  const std::vector<device::RowStatistics>& statistics) const;
  std::string find_nan(const Problem& problem, const Output& output);
  Tensors judged(const Tensors& inputs);
  double rmse_of_o(const Problem& problem, const void* o);
  void make_places(const std::vector<Group>& groups);
  void read_rows();

  Problem problem_;
  Runtime& runtime_;
  Calculator& calculator_;
  std::vector<HeadPlace> places_;  // of all heads, those that share keys one after another
  std::int64_t num_rows_ = 0, num_keys_ = 0;
  DeviceOutputs expected_;
  References rows_;
  // An e4m3 problem has them, others leave them empty: the values that its codes stand for, and the
  // references of its inputs before they were quantised.
  DeviceArray<float> q_, k_, v_;
  std::unique_ptr<DeviceReference> unquantised_;
};

}  // namespace attnlab::reference
