// From the timeline of a launch (kernels/shared/timeline.h) to what a record says of it, and to a
// trace for Perfetto.
#pragma once

#include <span>
#include <string>

#include "harness/record/record.h"
#include "kernels/api/timeline.h"

namespace attnlab {

// Items of one launch, and the medians of launches with and without a timeline, in seconds. It is
// void where the medians differ by more than 1 %, or where blocks did not claim all items equally
// often, at least once.
TimelineRecord summarize_timeline(std::span<const TimelineItem> items, double median_s,
                                  double timed_median_s);

// Returns the JSON of a trace as chrome://tracing and Perfetto read it: a process a
// multiprocessor, in it a thread a block, on which each item lies from its first product to its
// last store, or to where the next one begins; and its claim, its publication and its first K as
// moments. Microseconds from the first claim on. An item's arguments have its times as they were.
std::string timeline_trace(std::span<const TimelineItem> items, const Record& record);

}  // namespace attnlab
