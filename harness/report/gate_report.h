// Renders what a gate found: for people, for CI systems, and for those who keep times.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/report/comparison.h"
#include "harness/report/gate_kernels.h"

namespace attnlab {

struct GateReport {
  std::string head;  // its name; render_gates() alone shows it
  const Comparison& comparison;
  const CompareOptions& options;
  const std::vector<std::string>& troubles;  // of runs that did not end well
  std::vector<SideKernels> kernels;          // of the base and the head
  std::size_t measured_again = 0;            // points
  bool left_out = false;                     // points, which did not fit the budget
  int code = 0;
};

// Renders what render_comparison() does, and what the gate adds: repeats, troubles, what is left
// out, what ran beyond the operations' needs.
std::string render_gate(const GateReport& report, TableFormat format);

// Renders several heads, one after the other, and the code of all. csv has no place for it.
std::string render_gates(const std::vector<GateReport>& reports, TableFormat format, int code);

// Returns JUnit's XML, a test case a point: a failure where it is worse or wrong, an error where it
// was not measured or cannot be told, so that nothing but "same or faster" looks good.
std::string junit_of(const GateReport& report);

// Returns JUnit's XML of a gate that broke off: it has one error.
std::string junit_of_no_end();

// Returns a Markdown page that begins with the verdict, and ends before 1 MiB, the worst points
// first.
std::string summary_page(const GateReport& report);

// Returns workflow commands of GitHub, one for each point that is worse or wrong, 10 at most.
std::string github_annotations(const GateReport& report);

// Lists the times of the records that have one, for github-action-benchmark's
// customSmallerIsBetter.
std::string benchmark_json(const std::vector<RecordJson>& records);

}  // namespace attnlab
