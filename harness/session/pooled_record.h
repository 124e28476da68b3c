// Makes one record of a point of those of several processes.
#pragma once

#include <vector>

#include "harness/report/field.h"

namespace attnlab {

// Puts the samples of `again`, at least one record of the point, in the place of the first one's
// own: of those whose clock settled, if there are some. Their medians, in order, are added as
// time.medians_s, null where samples are left out. All else stays as it was first. Where one of
// `again` has no time that one is returned, since that is what became of the point; where the first
// has none, it is the first of `again` that stays.
RecordJson pooled(const RecordJson& first, const std::vector<RecordJson>& again);

}  // namespace attnlab
