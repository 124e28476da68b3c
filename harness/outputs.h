// The outputs of one competitor.
#pragma once

#include <string>

#include "harness/accounting.h"
#include "harness/arena.h"
#include "kernels/api/tensors.h"

namespace attnlab {

// o and lse of a forward pass, in an arena.
class Outputs {
 public:
  Outputs(Arena& arena, const std::string& owner, const Memory& sizes)
      : o_(arena.allocate("o of " + owner, sizes.outputs_bytes)),
        lse_(arena.allocate("lse of " + owner, sizes.saved_bytes)) {}

  // The inputs with these outputs and `workspace` filled in.
  Tensors attach(Tensors tensors, const Arena::Buffer& workspace,
                 std::uint64_t workspace_bytes) const {
    tensors.o = o_.get();
    tensors.lse = static_cast<float*>(lse_.get());
    tensors.workspace = workspace.get();
    tensors.workspace_bytes = workspace_bytes;
    return tensors;
  }

 private:
  Arena::Buffer o_, lse_;
};

}  // namespace attnlab
