// What came out of a verification, for people and for machines.
#pragma once

#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/report/table.h"
#include "harness/verify/options.h"

namespace attnlab::verify {

// Kernels by parts: how many checks passed, failed and were skipped. In json: every result.
std::string render_summary(const std::vector<Result>& results, TableFormat format);

// How many random problems each kernel was judged on, by pass; "" if none were.
std::string render_random(const std::vector<Result>& results);

// One line for each reason why checks were skipped, with the kernel and how many; "" if none were.
std::string render_skipped(const std::vector<Result>& results);

// A block for each failure, with a command that makes it again; at most `most` of them, then how
// many more there are. "" if there are none.
std::string render_failures(const std::vector<Result>& results, std::size_t most);

// A JUnit report, as continuous integration reads it: a suite for each kernel and part.
std::string render_junit(const std::vector<Result>& results);

}  // namespace attnlab::verify
