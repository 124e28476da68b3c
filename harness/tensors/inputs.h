// Makes the inputs of a case. The value of a logical element (tensor, batch entry, head, row,
// column) depends on the seed and on this index only: not on layout, thread count or the other
// sizes, so that every layout and every kernel sees the same numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/plan/sweep.h"
#include "harness/tensors/named_buffers.h"
#include "kernels/api/quantise.h"
#include "kernels/api/tensors.h"

namespace attnlab {

enum class InputTensor : std::uint8_t { q, k, v, dout };

// Fills one tensor in the problem's layout, rounded to its input_dtype():
//   normal        N(0, 1)
//   uniform       [-1, 1]
//   integers      80 % zero, else one of -3, -2, -1, 1, 2, 3
//   large_logits  N(0, 1), q times 16 (dO and the others are not)
//   outlier       N(0, 1) + N(0, 100) * Bernoulli(0.001); 100 is the variance. Source:
//                 FlashAttention-3, section 4.3.
//   outlier_channel  N(0, 1); column 0 of q, k and v times 10, as trained models have channels
//   v_one         N(0, 1), but v is 1 everywhere: so is o
//   v_mean_one    N(0, 1), and 1 more in v: what a tensor core cuts off its sums shows in o
//   sink          N(0, 1), but column 0 of q is 4, and that of the first key 2 sqrt(head_dim) more:
//                 with the default softmax_scale its scores are 8 larger
//   file          N(0, 1): a dO that the user's file does not have
// Keys and values past an entry's length under padding are +-1e4: large, so that a kernel that
// reads them is caught, and finite, because a kernel may multiply them by a P of zero.
void fill_input(InputTensor tensor, const Problem& problem, InputKind kind, std::uint64_t seed,
                int threads, void* data);

// Holds q, k, v, with a backward dO, and the lists that tell kernels about lengths and patterns, in
// an arena. Tensors that `file` has come from there, all others are drawn; the problem's sizes are
// then the file's, and its dtype is, too, or e4m3.
class Inputs {
 public:
  Inputs(Arena& arena, const Problem& problem, InputKind kind, std::uint64_t seed, int threads,
         const QkvTensors* file = nullptr);
  // Copies the values of `other`, whose problem differs in layout alone: faster than drawing them.
  Inputs(Arena& arena, const Problem& problem, const Inputs& other, int threads);

  // Returns the inputs in memory of the arena's device; all else is null.
  const Tensors& tensors() const { return tensors_; }
  // Returns the same values in memory of this process.
  const Tensors& host() const { return host_; }

  // Copies what kernels read into `buffers`: q, k, v and dO, or of e4m3 all codes and scales. The
  // rest is shared: the lists, and of e4m3 the fp32 tensors.
  Tensors copy(Arena& arena, NamedBuffers& buffers) const;

  const Problem& problem() const { return problem_; }

  // Writes a tensor anew, element by element, rounded to its dtype, also where padding hides it.
  // For e4m3 all codes and scales follow.
  using Value =
      std::function<float(std::int64_t b, std::int64_t head, std::int64_t row, std::int64_t col)>;
  void fill(InputTensor tensor, const Value& value);

  // Remembers the contents of all of them.
  void seal() { buffers_.seal(); }
  // Returns the name of one that changed since, "" if none did.
  std::string changed() const { return buffers_.changed(); }

 private:
  // Writes a tensor of this process, in the problem's layout.
  using Fill = std::function<void(InputTensor tensor, const void* Tensors::*member, void* data)>;
  Inputs(Arena& arena, const Problem& problem, const Fill& fill);
  // Makes room for the codes and scales of e4m3 of q, k and v, and makes them.
  void allocate_codes(Arena& arena);
  void quantise_inputs();

  Problem problem_;
  Runtime& runtime_;
  NamedBuffers buffers_;
  Tensors tensors_;
  // host_ views them, unless the device is the host; the threads that fill them touch them first.
  std::vector<std::unique_ptr<std::byte[]>> copies_;
  Tensors host_;
  // For e4m3 quantise_inputs() writes `codes_` in this process, and sends each of these on to the
  // device, unless that is the host; else both are empty.
  struct Sent {
    void* to;
    const void* from;
    std::uint64_t bytes;
  };
  E4m3Outputs codes_;
  std::vector<Sent> sent_;
};

}  // namespace attnlab
