// Renders what attnlab peak prints: measured ceilings beside data sheets, and levels of memory.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/base/text_table.h"
#include "harness/measure/peaks.h"
#include "harness/report/table.h"

namespace attnlab {

inline constexpr const char* kPeakReportSchema = "attnlab.peak_report/1";

// Returns every number of the report; null means no source, or not measured. A ceiling that cannot
// be true has its reason in `invalid` and no rates.
nlohmann::ordered_json make_peak_report(const Peaks& peaks, const Device& device);

// Renders table and markdown with the memory and how everything was measured, csv with the ceilings
// alone, json as the report itself.
std::string render_peaks(const nlohmann::ordered_json& report, TableFormat format);

}  // namespace attnlab
