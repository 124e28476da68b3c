#include "kernels/cuda/unit_text.h"

#include "kernels/cuda/backend.h"

namespace attnlab::cuda {

std::string unit_header(const std::string& include, Dtype dtype) {
  return "#include \"" + include +
         "\"\nusing namespace attnlab;\nusing T = " + storage_type(dtype) + ";\n";
}

std::string kernel_text(const KernelEntry& entry, i32 blocks, const std::string& parameters,
                        const std::string& call) {
  return "extern \"C\" __global__ void __launch_bounds__(" + number(entry.threads) + ", " +
         number(blocks) + ")\n" + entry.name +
         "(const __grid_constant__ Params params, const __grid_constant__ " + parameters +
         ") {\n  " + call + ";\n}\n";
}

}  // namespace attnlab::cuda
