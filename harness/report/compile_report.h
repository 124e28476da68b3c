// Renders what `attnlab compile` prints.
#pragma once

#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/report/table.h"
#include "kernels/api/compiler.h"

namespace attnlab {

// Renders one row an entry. table and markdown have the advisories and errors behind the table; csv
// and json have every number, with units in the names.
std::string render_compilations(const std::vector<Compilation>& compilations, TableFormat format);

// Returns "3 units, 4 kernels: 2 compiled in 3.1 s (1.6 s of waiting), 1 from the cache, 0 failed.
// NVRTC 13.0." The user waited `elapsed_s`.
std::string summarize(const std::vector<Compilation>& compilations, double elapsed_s);

}  // namespace attnlab
