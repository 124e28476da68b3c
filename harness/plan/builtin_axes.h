// Returns the axes of this program's own kernels (kernels/builtin.cpp), made once.
#pragma once

#include <vector>

#include "harness/plan/axes.h"

namespace attnlab {

const AxisGrammars& builtin_grammars();
const std::vector<SharedAxis>& builtin_axes();

}  // namespace attnlab
