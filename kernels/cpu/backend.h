// Holds what every CPU implementation shares: the device, the answer to what is unsupported, and
// the prepared state.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/api/implementation.h"
#include "kernels/cpu/executor.h"
#include "kernels/cpu/thread_pool.h"

namespace attnlab::cpu {

// Returns this machine's processors: all threads the process may use, best instructions, memory.
Device cpu_device();

// Returns the reason why no CPU kernel runs this yet, or empty.
std::string unsupported(const Problem& problem, const Device& device);

// BatchEntry has a batch entry's mask, over its own rows and keys, and its begin in packed tensors.
struct BatchEntry {
  Mask mask;
  i64 first_row = 0;  // of q, o, dO, dQ; 0 unless packed
  i64 first_key = 0;  // of k, v, dK, dV
};

// Makes entries over the block pattern of the tensors (null if there is none).
std::vector<BatchEntry> make_entries(const Problem& problem, const std::uint8_t* block_pattern);

// SliceTensors has one (batch, query head) slice: ranges of its rows and keys as they lie in HBM.
// `tensors` may be all null when only counting.
class SliceTensors {
 public:
  SliceTensors(const Problem& problem, const Shape& shape, const BatchEntry& entry,
               const Tensors& tensors, i64 batch, i64 head);

  // q, k and v of e4m3 are codes with their scales.
  GlobalRows q(Range rows) const;
  GlobalRows o(Range rows) const { return query_rows(Operand::o, tensors_.o, rows); }
  GlobalRows dout(Range rows) const { return query_rows(Operand::dout, tensors_.dout, rows); }
  GlobalRows dq(Range rows) const { return query_rows(Operand::dq, tensors_.dq, rows); }
  GlobalRows k(Range keys) const;
  GlobalRows v(Range keys) const;
  GlobalRows dk(Range keys) const { return key_rows(Operand::dk, tensors_.dk, keys); }
  GlobalRows dv(Range keys) const { return key_rows(Operand::dv, tensors_.dv, keys); }
  GlobalRows lse(Range rows) const { return statistic(Operand::lse, tensors_.lse, rows); }

  // Returns rows of an fp32 tensor (batch, num_heads_q, seqlen_q), as one row of HBM.
  GlobalRows statistic(Operand operand, const float* data, Range rows) const;
  // Returns rows of an fp32 accumulator (batch, num_heads_q, seqlen_q, head_dim) in a workspace.
  GlobalRows accumulator(Operand operand, const float* data, Range rows) const;

  const Mask& mask() const { return entry_.mask; }
  i64 batch() const { return batch_; }
  i64 head() const { return head_; }
  // Returns batch * num_heads_q + head: what dropout calls this slice.
  i64 index() const { return batch_ * shape_.num_heads_q + head_; }

 private:
  GlobalRows query_rows(Operand operand, const void* data, Range rows) const;
  GlobalRows key_rows(Operand operand, const void* data, Range keys) const;
  GlobalRows key_codes(Operand operand, const std::uint8_t* data, const float* scales,
                       ScaleOf scale_of, Range keys) const;

  const Shape& shape_;
  const BatchEntry& entry_;
  const Tensors& tensors_;
  const Problem& problem_;
  i64 batch_, head_;
};

// Prepared is a CPU kernel's state: nothing is compiled, so it only remembers and looks up.
struct Prepared : PreparedKernel {
  Prepared(const Problem& problem, const Config& config, const Device& device);

  // Resets the counts of the workers' executors.
  void begin_launch();
  // Returns what the last launch loaded, stored and executed.
  Traffic executed() const;

  Problem problem;
  Shape shape;
  Config config;
  const TileOps* ops;
  std::shared_ptr<ThreadPool> pool;
  std::vector<Executor> executors;  // one a worker
};

PreparedKernel* prepare(const Problem& problem, const Config& config, const Device& device);
void release(PreparedKernel* prepared);

}  // namespace attnlab::cpu
