// Renders what `attnlab run --dry-run` prints.
#pragma once

#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/plan/case.h"
#include "kernels/api/device.h"

namespace attnlab {

// Lists every point, whether it would run, and the memory it needs.
std::string render_plan(const std::vector<Case>& cases, const Device& device, TableFormat format);

}  // namespace attnlab
