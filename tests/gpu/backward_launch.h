// Holds a kernel's backward on a GPU behind its forward, with its own inputs and outputs, ready to
// be launched.
#pragma once

#include <vector>

#include "tests/gpu/forward_launch.h"

namespace attnlab {

class BackwardLaunch {
 public:
  // Draws inputs from N(0,1), of which dO has the numbers of Q, and launches the forward, which
  // leaves o and lse.
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
    std::vector<u8> values(bytes_like_q(problem));
    arena_.runtime().read(values.data(), tensors_.q, values.size());
    void* const dout = room("dout", values.size());
    arena_.runtime().write(dout, values.data(), values.size());
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

  const Tensors& tensors() const { return tensors_; }
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
