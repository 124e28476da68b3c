// Holds a kernel's forward on a GPU, with its own inputs and outputs, ready to be launched.
#pragma once

#include "harness/plan/accounting.h"
#include "harness/tensors/arena.h"
#include "harness/tensors/inputs.h"
#include "tests/gpu/gpu_fixture.h"

namespace attnlab {

class ForwardLaunch {
 public:
  ForwardLaunch(const Implementation& kernel, const Problem& problem, const Config& config)
      : kernel_(kernel),
        arena_(runtime_of(gpu())),
        inputs_(arena_, problem, InputKind::normal, 7, 4),
        o_(arena_.allocate("o", bytes_like_q(problem))),
        lse_(arena_.allocate("lse", bytes_of_lse(problem))),
        workspace_(arena_.allocate("workspace", kernel.workspace_bytes(problem, config, gpu()))),
        tensors_(inputs_.tensors()),
        prepared_(kernel.prepare(problem, config, gpu())) {
    tensors_.o = o_.get();
    tensors_.lse = static_cast<float*>(lse_.get());
    tensors_.workspace = workspace_.get();
    tensors_.workspace_bytes = kernel.workspace_bytes(problem, config, gpu());
  }
  ~ForwardLaunch() { kernel_.release(prepared_); }
  ForwardLaunch(const ForwardLaunch&) = delete;
  ForwardLaunch& operator=(const ForwardLaunch&) = delete;

  const Tensors& tensors() const { return tensors_; }
  void operator()() const { kernel_.launch(prepared_, tensors_, runtime_of(gpu()).queue()); }

 private:
  const Implementation& kernel_;
  Arena arena_;
  Inputs inputs_;
  Arena::Buffer o_, lse_, workspace_;
  Tensors tensors_;
  PreparedKernel* prepared_;
};

}  // namespace attnlab
