// The text of v3's kernels for NVRTC: one unit a pass, type and tile.
#pragma once

#include "kernels/api/compiler.h"
#include "kernels/api/problem.h"
#include "kernels/cuda/unit_text.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

cuda::ConfigFields fields_of(const ForwardConfig& config);

KernelUnit forward_unit(Dtype dtype, const ForwardConfig& config);

// The same with a fourth parameter, a TimelineItem*: it writes down when each work item was worked
// on.
KernelUnit forward_unit_with_timeline(Dtype dtype, const ForwardConfig& config);

cuda::ConfigFields fields_of(const BackwardConfig& config);

// Entries: prepare_rows, backward, backward_again, finish_rows.
KernelUnit backward_unit(Dtype dtype, const BackwardConfig& config);

}  // namespace attnlab::v3
