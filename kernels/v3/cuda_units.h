// Writes the text of v3's kernels for NVRTC: one unit for each pass, type and tile.
#pragma once

#include "kernels/api/compiler.h"
#include "kernels/api/problem.h"
#include "kernels/cuda/unit_text.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

cuda::ConfigFields fields_of(const ForwardConfig& config);

KernelUnit forward_unit(Dtype dtype, const ForwardConfig& config);

// Give the kernel that works on items a fourth parameter, a TimelineItem*, to which it writes when
// each work item was worked on.
KernelUnit forward_unit_with_timeline(Dtype dtype, const ForwardConfig& config);
KernelUnit backward_unit_with_timeline(Dtype dtype, const BackwardConfig& config);

cuda::ConfigFields fields_of(const BackwardConfig& config);

// The unit has these entries: prepare_rows, backward, backward_again, finish_rows.
KernelUnit backward_unit(Dtype dtype, const BackwardConfig& config);

}  // namespace attnlab::v3
