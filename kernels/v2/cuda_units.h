// Describes the translation units of v2's kernels on a GPU.
#pragma once

#include "kernels/api/compiler.h"
#include "kernels/api/problem.h"
#include "kernels/cuda/unit_text.h"
#include "kernels/v2/schedule.h"

namespace attnlab::v2 {

cuda::ConfigFields fields_of(const ForwardConfig& config);
cuda::ConfigFields fields_of(const BackwardConfig& config);

KernelUnit forward_unit(Dtype dtype, const ForwardConfig& config);    // forward
KernelUnit backward_unit(Dtype dtype, const BackwardConfig& config);  // prepare_rows, backward,
                                                                      // backward_from_saved,
                                                                      // finish_rows

}  // namespace attnlab::v2
