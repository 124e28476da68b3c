#include "kernels/cuda/launch.h"

#include <stdexcept>

#include "kernels/cuda/driver.h"

namespace attnlab::cuda {

void launch(CUfunction function, const std::string& name, const LaunchShape& shape, CUstream stream,
            void** parameters) {
  constexpr u64 kMaxBlocks = (u64{1} << 31) - 1;
  if (shape.blocks > kMaxBlocks) {
    throw std::runtime_error("launching " + name + ": " + std::to_string(shape.blocks) +
                             " blocks are more than a grid can have; make batch, heads or seqlen_q "
                             "smaller");
  }
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(shape.blocks);
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(shape.threads);
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(shape.dynamic_shared_bytes);
  config.hStream = stream;
  check(driver().cuLaunchKernelEx(&config, function, parameters, nullptr), "launching " + name);
}

}  // namespace attnlab::cuda
