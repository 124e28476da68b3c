// Renders the noise of a machine: for each length of launches, what its gate can resolve.
#pragma once

#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/measure/noise.h"

namespace attnlab {

std::string render_noise(const std::vector<NoiseSession>& sessions, TableFormat format);

}  // namespace attnlab
