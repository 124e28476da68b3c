#include "harness/record/json_parts.h"
#include "harness/record/readings.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

Json block_json(const Block& block) {
  const TelemetryReading& reading = block.reading;
  return {{"first_sample", block.first_sample},
          {"samples", block.samples},
          {"sm_clock_hz", optional_number(reading.multiprocessor_clock_hz)},
          {"memory_clock_hz", optional_number(reading.memory_clock_hz)},
          {"power_w", optional_number(reading.power_w)},
          {"temperature_c", optional_number(reading.temperature_c)},
          {"throttle_reasons", reading.throttle_reasons},
          {"marked", block.marked}};
}

}  // namespace

Json telemetry_json(const BlockTelemetry& telemetry) {
  Json blocks = Json::array();
  for (const Block& block : telemetry.blocks) blocks.push_back(block_json(block));
  return {{"median_clock_hz", optional_number(telemetry.median_clock_hz)},
          {"mean_clock_hz", optional_number(telemetry.mean_clock_hz)},
          {"marked_blocks", telemetry.marked_blocks},
          {"settled", optional(telemetry.settled, [](bool settled) { return Json(settled); })},
          {"cycles", optional_number(telemetry.cycles)},
          {"blocks", blocks},
          {"reason", telemetry.reason}};
}

Json energy_json(const EnergyRecord& energy) {
  const std::optional<EnergyUse>& use = energy.use;
  const auto of_use = [&use](double EnergyUse::*member) {
    return use ? number((*use).*member) : Json(nullptr);
  };
  return {{"seconds", of_use(&EnergyUse::seconds)},
          {"launches", of_use(&EnergyUse::launches)},
          {"joules", of_use(&EnergyUse::joules)},
          {"joules_per_call", of_use(&EnergyUse::joules_per_call)},
          {"picojoules_per_flop", use ? optional_number(use->picojoules_per_flop) : Json(nullptr)},
          {"mean_power_w", of_use(&EnergyUse::mean_power_w)},
          {"reason", energy.reason}};
}

}  // namespace attnlab
