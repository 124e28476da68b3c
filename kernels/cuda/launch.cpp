#include "kernels/cuda/launch.h"

#include <stdexcept>

#include "kernels/cuda/driver.h"
#include "kernels/cuda/launch_attributes.h"

namespace attnlab::cuda {

namespace {

// Returns why no GPU launches this, or empty.
std::string invalid(const LaunchGrid& grid) {
  constexpr u64 kMaxBlocks = (u64{1} << 31) - 1;
  constexpr int kMaxClusterBlocks = 8;  // that every GPU with clusters allows
  if (grid.blocks > kMaxBlocks) {
    return std::to_string(grid.blocks) +
           " blocks are more than a grid can have; make batch, heads or seqlen_q smaller";
  }
  const int cluster = grid.cluster_blocks;
  if (cluster < 1 || cluster > kMaxClusterBlocks || grid.blocks % static_cast<u64>(cluster) != 0) {
    return "clusters of " + std::to_string(cluster) + " blocks in a grid of " +
           std::to_string(grid.blocks) + ": it must be 1 to 8 and divide the grid";
  }
  return "";
}

}  // namespace

LaunchAttributes attributes_of(const LaunchGrid& grid) {
  LaunchAttributes attributes;
  if (grid.cluster_blocks > 1) {
    CUlaunchAttribute& cluster = attributes.list[attributes.count++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = static_cast<unsigned>(grid.cluster_blocks);
    cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
  }
  if (grid.starts_early) {
    CUlaunchAttribute& early = attributes.list[attributes.count++];
    early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    early.value.programmaticStreamSerializationAllowed = 1;
  }
  return attributes;
}

void launch(CUfunction function, const std::string& name, const LaunchShape& shape, CUstream stream,
            void** parameters) {
  if (const std::string reason = invalid(shape.grid); !reason.empty()) {
    throw std::runtime_error("launching " + name + ": " + reason);
  }
  LaunchAttributes attributes = attributes_of(shape.grid);
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(shape.grid.blocks);
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = static_cast<unsigned>(shape.threads);
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(shape.dynamic_shared_bytes);
  config.hStream = stream;
  config.attrs = attributes.list;
  config.numAttrs = attributes.count;
  check(driver().cuLaunchKernelEx(&config, function, parameters, nullptr), "launching " + name);
}

void clear_bytes(CUstream stream, void* data, u64 bytes, const std::string& what) {
  check(driver().cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(data), 0, bytes, stream), what);
}

void clear_words(CUstream stream, void* data, u64 words, const std::string& what) {
  check(driver().cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(data), 0, words, stream), what);
}

}  // namespace attnlab::cuda
