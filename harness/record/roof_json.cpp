#include "harness/record/json_parts.h"
#include "harness/record/readings.h"

namespace attnlab {

using Json = nlohmann::ordered_json;

Json roof_json(const Roof& roof) {
  const auto source = [](const Roof::Source& from) -> Json {
    return {{"device", from.device},
            {"driver", from.driver},
            {"timestamp", from.timestamp},
            {"compute", to_string(from.compute)},
            {"flops_per_s", number(from.peaks.flops_per_s)},
            {"memory", to_string(from.memory)},
            {"bytes_per_s", number(from.peaks.bytes_per_s)}};
  };
  return {{"intensity_flop_per_byte", optional_number(roof.intensity)},
          {"dram_intensity_flop_per_byte", optional_number(roof.dram_intensity)},
          {"binds", optional(roof.binds, [](Limit limit) { return Json(to_string(limit)); })},
          {"percent_of_compute_peak", optional_number(roof.percent_of_compute_peak)},
          {"percent_of_memory_peak", optional_number(roof.percent_of_memory_peak)},
          {"percent_of_roof", optional_number(roof.percent_of_roof)},
          {"peaks", optional(roof.source, source)},
          {"reason", roof.reason}};
}

}  // namespace attnlab
