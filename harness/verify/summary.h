// Renders what came out of a verification, for people and for machines.
#pragma once

#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/report/table.h"
#include "harness/verify/options.h"

namespace attnlab::verify {

// Renders how many checks passed, failed and were skipped, kernels by parts; as json every result.
std::string render_summary(const std::vector<Result>& results, TableFormat format);

// Says how many random problems each kernel was judged on, by pass; "" if none were.
std::string render_random(const std::vector<Result>& results);

// Renders a line for each reason of skipped checks, with the kernel and how many; "" if none were.
std::string render_skipped(const std::vector<Result>& results);

// Renders a block for each failure, with a command that makes it again; at most `most` of them,
// then how many more there are. It is "" if there are none.
std::string render_failures(const std::vector<Result>& results, std::size_t most);

// Renders JUnit's XML for continuous integration: a suite for each kernel and part.
std::string render_junit(const std::vector<Result>& results);

}  // namespace attnlab::verify
