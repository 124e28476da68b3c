// What a comparison found, for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/base/text_table.h"
#include "harness/gate/comparison.h"

namespace attnlab {

// "ok", "slower", ... of an exit code of compare.
const char* verdict_word(int code);

// table and markdown end with the verdict; csv has a line a point; json has everything.
std::string render_comparison(const Comparison& comparison, const CompareOptions& options,
                              TableFormat format);

}  // namespace attnlab
