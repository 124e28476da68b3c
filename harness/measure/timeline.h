// Turns the timeline of a launch (kernels/shared/timeline.h) into what a record says of it, and
// into a trace for Perfetto.
#pragma once

#include <span>
#include <string>

#include "harness/record/record.h"
#include "kernels/api/timeline.h"

namespace attnlab {

// Sums up the items of one launch; the medians, in seconds, are of launches with and without a
// timeline. The result is void where these differ by more than 1 %, or where blocks did not claim
// all items equally often, at least once.
TimelineRecord summarize_timeline(std::span<const TimelineItem> items, double median_s,
                                  double timed_median_s);

// Returns the JSON of a trace as chrome://tracing and Perfetto read it: a process a multiprocessor,
// in it a thread a block. An item's span goes from its first product to its last store, or to where
// the next one begins; its claim, publication and first K are moments. Microseconds count from the
// first claim; an item's arguments have its times unchanged.
std::string timeline_trace(std::span<const TimelineItem> items, const Record& record);

}  // namespace attnlab
