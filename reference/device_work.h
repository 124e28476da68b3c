// Computes what the reference on a device has of one head, some rows at a time: the products and
// the kernels of device_kernels.cuh, in order.
#pragma once

#include <cstdint>

#include "kernels/api/calculator.h"
#include "kernels/api/problem.h"
#include "kernels/api/runtime.h"
#include "kernels/api/tensors.h"
#include "reference/device_arguments.h"
#include "reference/device_array.h"
#include "reference/storage.h"

namespace attnlab::reference {

// DeviceExpected is what one output should be, before its scale, and what the tolerance rule needs
// to judge it; see Expected. It has rows (of dk, dv: keys) of all groups, one behind the other.
struct DeviceExpected {
  DeviceExpected() = default;
  DeviceExpected(Runtime& runtime, std::int64_t rows, std::int64_t head_dim, bool has_delta);

  DeviceArray<double> value;  // (rows, head_dim)
  DeviceArray<float> twin;    // (rows, head_dim), sums that are not rounded yet
  DeviceArray<float> sizes;   // (rows, head_dim)
  DeviceArray<float> delta;   // (rows, head_dim), or nothing; dk: squares
};

struct DeviceOutputs {
  DeviceArray<double> lse;          // (rows)
  DeviceArray<float> lse_twin;      // (rows)
  DeviceArray<float> score_bounds;  // (rows)
  DeviceArray<std::uint8_t> seen;   // (keys), by any row of any head that uses them
  DeviceExpected o, dq, dk, dv;     // the last three of a backward alone
};

// HeadPlace says where the rows and keys of a head are in these arrays. All heads that share a K/V
// head have its keys.
struct HeadPlace {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t first_row = 0;
  std::int64_t first_key = 0;
  bool opens_keys = false;  // the first head of those that share
};

// A matrix of scores has this many elements at a time, at least one row: 256 MiB in double.
inline constexpr std::int64_t kChunkElements = std::int64_t{1} << 25;

class DeviceWork {
 public:
  // Takes inputs in memory of the runtime. Throws std::bad_alloc.
  DeviceWork(const Problem& problem, const Tensors& inputs, Products products, Runtime& runtime,
             Calculator& calculator, std::int64_t chunk_elements);

  // Queues all of one head; its entry has rows and keys.
  void queue(const HeadPlace& place, DeviceOutputs& outputs);

 private:
  // Chunk is rows of a head that are worked on together.
  struct Chunk {
    const HeadPlace& place;
    DeviceOutputs& outputs;
    std::int64_t first_row = 0;  // in the outputs
    device::Rows rows;
    bool opens_keys = false;  // nothing was added to their sums yet
  };
  // Factor has the rows of one input, as the products take them.
  struct Factor {
    DeviceArray<double> exact;
    DeviceArray<float> twin, sizes, squares;
  };

  void draw_blocks(Runtime& runtime);
  void gather(const void* tensor, Side side, const HeadPlace& place, std::int64_t first,
              std::int64_t rows, Factor& factor);
  device::Rows rows_of(const HeadPlace& place, std::int64_t first, std::int64_t count) const;
  device::ScoreSizes score_sizes(const Chunk& chunk) const;
  void attend(const Chunk& chunk);
  void differentiate(const Chunk& chunk);
  void add_to_keys(const Chunk& chunk);
  const double* pz() const { return has_pz_ ? pz_.get() : p_.get(); }
  float* twin_pz() const { return twin_pz_.get() != nullptr ? twin_pz_.get() : twin_p_.get(); }
  template <class Arguments>
  void launch(const char* entry, std::int64_t blocks, const Arguments& arguments);

  const Problem& problem_;
  const Tensors& inputs_;
  bool tf32_;
  bool has_backward_, has_pz_, has_subnormal_;
  Calculator& calculator_;
  double unit_roundoff_, half_step_;
  std::int64_t chunk_rows_ = 1;
  DeviceArray<std::uint8_t> blocks_;
  std::int64_t blocks_of_keys_ = 0;
  Factor q_, k_, v_, dout_;
  DeviceArray<double> p_, pz_, ds_;                           // (chunk_rows, keys)
  DeviceArray<float> twin_p_, twin_pz_, twin_ds_;             // likewise
  DeviceArray<float> sizes_p_, sizes_ds_, errors_, squares_;  // likewise
  DeviceArray<double> delta_;                                 // (chunk_rows)
  DeviceArray<float> delta_sizes_, delta_errors_;             // likewise
  DeviceArray<double> largest_scores_;                        // likewise
  DeviceArray<float> score_squares_;                          // likewise
  DeviceArray<float> o_errors_;                               // (chunk_rows, head_dim)
};

device::Stored stored_as(Dtype dtype);
// Returns the address of the element of an index.
const void* element(const void* tensor, Dtype dtype, std::int64_t index);
// Returns the elements from row to row of a head.
std::int64_t row_stride(const Problem& problem, Side side);

// Returns the kernels that a Calculator needs for it.
KernelUnit device_reference_unit();

}  // namespace attnlab::reference
