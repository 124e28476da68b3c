// What `attnlab compile` prints.
#pragma once

#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/report/table.h"
#include "kernels/api/compiler.h"

namespace attnlab {

// One row an entry. table and markdown: with the advisories and errors behind the table; csv and
// json: every number, units in the names.
std::string render_compilations(const std::vector<Compilation>& compilations, TableFormat format);

// "3 units, 4 kernels: 2 compiled in 3.1 s (1.6 s of waiting), 1 from the cache, 0 failed. NVRTC
// 13.0." `elapsed_s`: what the user waited.
std::string summarize(const std::vector<Compilation>& compilations, double elapsed_s);

}  // namespace attnlab
