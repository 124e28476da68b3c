#include "harness/report/explanation.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/report/fields.h"

namespace attnlab {
namespace {

std::string text_of(const RecordJson& record, const char* field) {
  return exact(find_field(field, "").read(record));
}

// Older records do not say the regime.
std::string state_of(const RecordJson& record) {
  const std::string regime = text_of(record, "regime"), cache = text_of(record, "cache");
  return regime.empty() ? cache : fmt::format("{}, {}", regime, cache);
}

std::optional<double> bytes_of(const RecordJson& record, const char* memory) {
  if (at(record, {"traffic", "valid"}) != true) return std::nullopt;
  return sum(number_at(record, {"traffic", memory, "read_bytes"}),
             number_at(record, {"traffic", memory, "write_bytes"}));
}

Counts counts_of(const RecordJson& record) {
  const RecordJson entry = main_entry(record);
  return {.executed_flops = number_at(record, {"flops", "executed"}),
          .useful_flops = number_at(record, {"flops", "useful"}),
          .compulsory_bytes = number_at(record, {"traffic", "compulsory_bytes"}),
          .requested_bytes = sum(number_at(record, {"traffic", "requested_read_bytes"}),
                                 number_at(record, {"traffic", "requested_write_bytes"})),
          .l2_bytes = bytes_of(record, "l2"),
          .dram_bytes = bytes_of(record, "dram"),
          .full_tiles = number_at(record, {"traffic", "tiles", "full"}),
          .partial_tiles = number_at(record, {"traffic", "tiles", "partial"}),
          .empty_tiles = number_at(record, {"traffic", "tiles", "empty"}),
          .threads = number_at(entry, {"threads"}),
          .registers = number_at(entry, {"registers"}),
          .shared_bytes = sum(number_at(entry, {"static_shared_bytes"}),
                              number_at(entry, {"dynamic_shared_bytes"})),
          .blocks_per_multiprocessor = number_at(entry, {"blocks_per_multiprocessor"}),
          .spill_bytes =
              sum(number_at(entry, {"spill_store_bytes"}), number_at(entry, {"spill_load_bytes"})),
          .counted_clock_hz = number_at(record, {"counters", "multiprocessor_clock_hz"})};
}

// Drops all items: the grid that ran did not give a block a tile of rows, so neighbours' would not.
void forget_items(TileFacts& tiles) {
  tiles.own.items.reset();
  for (TileFact& tile : tiles.neighbours) tile.items.reset();
}

}  // namespace

const LimiterShare* Explanation::limiter() const {
  return !findings.empty() && findings.front().binds() ? &findings.front() : nullptr;
}

Explanation explain(const RecordJson& record, const TileFacts& tiles, const Peaks* peaks) {
  Explanation explanation{.id = record.at("id"),
                          .kernel = record.at("kernel"),
                          .config = text_of(record, "config"),
                          .device = text_of(record, "device"),
                          .state = state_of(record),
                          .status = record.at("status"),
                          .reason = text_of(record, "reason"),
                          .is_measured = number_at(record, {"time", "median_s"}).has_value(),
                          .tiles = tiles};
  if (explanation.status != "ok") return explanation;
  explanation.seconds = explained_seconds(record, tiles, peaks);
  explanation.findings = find_limiters(record, tiles, peaks);
  explanation.counts = counts_of(record);
  explanation.waves = waves_of(record, tiles);
  if (tiles.own.items != explanation.waves.items) forget_items(explanation.tiles);
  explanation.next = next_step(explanation, record);
  return explanation;
}

}  // namespace attnlab
