// Brings tensors of a device to where the oracle can read them.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/api/problem.h"
#include "kernels/api/runtime.h"
#include "kernels/api/tensors.h"

namespace attnlab {

class HostTensors {
 public:
  // Brings the outputs among `tensors` (o and lse also where they are inputs) here from `runtime`,
  // if they are elsewhere; inputs are those of `inputs`, which lie here. `saved` and the workspace
  // stay behind.
  HostTensors(const Problem& problem, const Tensors& tensors, const Tensors& inputs,
              Runtime& runtime);

  const Tensors& tensors() const { return tensors_; }

 private:
  Tensors tensors_;
  std::vector<std::vector<std::byte>> copies_;
};

}  // namespace attnlab
