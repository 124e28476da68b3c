// The text of a translation unit for NVRTC, put together: what the units of all kernels have alike.
#pragma once

#include <string>

#include "kernels/api/compiler.h"
#include "kernels/api/problem.h"
#include "kernels/shared/base.h"

namespace attnlab::cuda {

inline std::string number(i64 value) { return std::to_string(value); }
inline std::string truth(bool value) { return value ? "true" : "false"; }

// The include of a kernel's header and, as T, the storage type.
std::string unit_header(const std::string& include, Dtype dtype);

// A kernel: its name and threads, how many of its blocks a multiprocessor shall hold, what it takes
// after `Params params` ("WorkGrid grid, T* gO"), and the call that does the work.
std::string kernel_text(const KernelEntry& entry, i32 blocks, const std::string& parameters,
                        const std::string& call);

}  // namespace attnlab::cuda
