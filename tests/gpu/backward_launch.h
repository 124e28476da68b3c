// Holds a kernel's backward on a GPU behind its forward, with its own inputs and outputs, ready to
// be launched.
#pragma once

#include "kernels/cuda/peak_kernels.h"
#include "tests/gpu/forward_launch.h"

namespace attnlab {

class BackwardLaunch {
 public:
  // Draws inputs from N(0,1) and launches the forward, which leaves o and lse.
  BackwardLaunch(const Implementation& kernel, Problem problem, const Config& config)
      : kernel_(kernel),
        forward_(kernel, as(Pass::fwd, problem), config),
        arena_(runtime_of(gpu())) {
    forward_();
    problem = as(Pass::bwd, problem);
    tensors_ = forward_.tensors();
    const auto room = [&](const char* name, u64 bytes) {
      buffers_.push_back(arena_.allocate(name, bytes));
      return buffers_.back().get();
    };
    void* const dout = room("dout", bytes_like_q(problem));
    cuda::PeakKernels(gpu()).fill_normal(cuda::as_stream(arena_.runtime().queue()), problem.dtype,
                                         dout, static_cast<u64>(problem.elements_q()));
    tensors_.dout = dout;
    tensors_.dq = room("dq", bytes_like_q(problem));
    tensors_.dk = room("dk", bytes_like_k(problem));
    tensors_.dv = room("dv", bytes_like_k(problem));
    tensors_.workspace_bytes = kernel.workspace_bytes(problem, config, gpu());
    tensors_.workspace = room("workspace", tensors_.workspace_bytes);
    prepared_ = kernel.prepare(problem, config, gpu());
  }
  ~BackwardLaunch() { kernel_.release(prepared_); }
  BackwardLaunch(const BackwardLaunch&) = delete;
  BackwardLaunch& operator=(const BackwardLaunch&) = delete;

  void operator()() const { kernel_.launch(prepared_, tensors_, runtime_of(gpu()).queue()); }

 private:
  static Problem as(Pass pass, Problem problem) {
    problem.pass = pass;
    return problem;
  }

  const Implementation& kernel_;
  ForwardLaunch forward_;
  Arena arena_;
  std::vector<Arena::Buffer> buffers_;
  Tensors tensors_;
  PreparedKernel* prepared_;
};

}  // namespace attnlab
