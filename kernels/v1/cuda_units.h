// Describes the translation units of v1's kernels on a GPU.
#pragma once

#include "kernels/api/compiler.h"
#include "kernels/api/problem.h"
#include "kernels/cuda/unit_text.h"
#include "kernels/v1/schedule.h"

namespace attnlab::v1 {

cuda::ConfigFields fields_of(const ForwardConfig& config);
cuda::ConfigFields fields_of(const BackwardConfig& config);

KernelUnit forward_unit(Dtype dtype, const ForwardConfig& config);    // forward
KernelUnit backward_unit(Dtype dtype, const BackwardConfig& config);  // backward, and from m and l
KernelUnit row_visits_unit();                                         // find_visits

inline constexpr int kVisitsWarps = 4;

}  // namespace attnlab::v1
