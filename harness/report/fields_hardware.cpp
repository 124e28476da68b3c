// Defines fields of what the hardware's counters saw, and of the device's measured peaks.
#include <algorithm>
#include <utility>

#include "harness/record/beyond.h"
#include "harness/report/field_list.h"

namespace attnlab {
namespace {

constexpr NumberFormat kPlain = NumberFormat::plain;
constexpr NumberFormat kSignificant = NumberFormat::significant;

RecordJson read_executed(const RecordJson& record) {
  const RecordJson kernels = at(record, {"evidence", "executed"});
  if (!kernels.is_array()) return nullptr;
  std::string text;
  for (const RecordJson& kernel : kernels) {
    text += (text.empty() ? "" : " ") + at(kernel, {"symbol"}).get<std::string>();
  }
  return text;
}

RecordJson read_beyond(const RecordJson& record) {
  const std::string text = beyond_text(record);
  return text.empty() ? RecordJson() : RecordJson(text);
}

RecordJson read_beyond_percent(const RecordJson& record) {
  const RecordJson beyond = kernels_beyond(record);
  if (!beyond.is_array()) return nullptr;
  double percent = 0.0;
  for (const RecordJson& kernel : beyond) {
    if (!kernel.contains("share")) return nullptr;
    percent += 100.0 * kernel.at("share").get<double>();
  }
  return percent;
}

// Reads bytes of a counter that passed its self-test: reads and writes together, or one kind.
FieldReader counted_mib(const char* memory, std::vector<const char*> kinds) {
  return [memory, kinds = std::move(kinds)](const RecordJson& record) -> RecordJson {
    if (at(record, {"traffic", "valid"}) != true) return nullptr;
    double total = 0.0;
    for (const char* kind : kinds) {
      const RecordJson bytes = at(record, {"traffic", memory, kind});
      if (!bytes.is_number()) return nullptr;
      total += bytes.get<double>();
    }
    return total * kMibPerByte;
  };
}

// Reads what the multiprocessors asked the L2 for. Their reads of the same lines at the same time
// are merged on the way, so the L2 may see less.
RecordJson asked_mib(const RecordJson& record) {
  const RecordJson read = at(record, {"counters", "sm_read_bytes"});
  const RecordJson written = at(record, {"traffic", "l2", "write_bytes"});
  if (at(record, {"traffic", "valid"}) != true || !read.is_number() || !written.is_number()) {
    return nullptr;
  }
  return (read.get<double>() + written.get<double>()) * kMibPerByte;
}

// Reads the most that a kernel of the point takes, as its compiler said, of the sum of `keys`.
FieldReader most_of_kernels(std::vector<const char*> keys, double factor) {
  return [keys = std::move(keys), factor](const RecordJson& record) -> RecordJson {
    RecordJson most;
    const RecordJson units = at(record, {"compile"});
    if (!units.is_array()) return most;
    for (const RecordJson& unit : units) {
      const RecordJson entries = at(unit, {"entries"});
      if (!entries.is_array()) continue;
      for (const RecordJson& entry : entries) {
        double sum = 0.0;
        for (const char* key : keys) {
          const RecordJson value = at(entry, {key});
          if (value.is_number()) sum += factor * value.get<double>();
        }
        most = most.is_null() ? sum : std::max(sum, most.get<double>());
      }
    }
    return most;
  };
}

}  // namespace

void add_compile_fields(FieldList& list) {
  list.add_measure("registers", "registers", "", NumberFormat::plain,
                   "of a thread: the most of the point's GPU kernels",
                   most_of_kernels({"registers"}, 1.0));
  list.add_measure("spill_bytes", "spill B", "B", NumberFormat::plain,
                   "spilled registers of a thread, bytes stored and loaded",
                   most_of_kernels({"spill_store_bytes", "spill_load_bytes"}, 1.0));
  list.add_measure("shared_kib", "shared KiB", "KiB", NumberFormat::significant,
                   "shared memory of a block: the most of the point's GPU kernels",
                   most_of_kernels({"static_shared_bytes", "dynamic_shared_bytes"}, 0x1p-10));
}

void add_counter_fields(FieldList& list) {
  const auto add = [&list](const char* name, const char* title, const char* memory,
                           std::vector<const char*> kinds, const char* summary) {
    list.add_measure(name, title, "MiB", kSignificant, summary,
                     counted_mib(memory, std::move(kinds)));
  };
  list.add_measure("sm_mib", "SM MiB", "MiB", kSignificant,
                   "what they asked for: reads counted where they arrive, writes at the L2",
                   asked_mib);
  add("l2_mib", "L2 MiB", "l2", {"read_bytes", "write_bytes"},
      "what the multiprocessors read and wrote, counted at the L2");
  add("l2_read_mib", "L2 read MiB", "l2", {"read_bytes"}, "of it, reads");
  add("l2_write_mib", "L2 write MiB", "l2", {"write_bytes"}, "of it, writes");
  add("dram_mib", "dram MiB", "dram", {"read_bytes", "write_bytes"},
      "what reached the GPU's memory (counted)");
  add("dram_read_mib", "dram read MiB", "dram", {"read_bytes"}, "of it, reads");
  add("dram_write_mib", "dram write MiB", "dram", {"write_bytes"}, "of it, writes");
  list.add_measure("tensor_pct", "tensor %", "%", kSignificant,
                   "cycles with a tensor pipe at work, of those with a warp (mma.sync: of 400)",
                   value_at({"counters", "tensor_active_percent"}));
  list.add_measure("shared_wavefronts", "smem wavefronts", "", kSignificant,
                   "wavefronts of shared memory (--further-counters)",
                   value_at({"counters", "shared_wavefronts"}));
  list.add_measure("shared_conflicts_ld", "smem ld confl.", "", kSignificant,
                   "bank conflicts of loads from shared memory (--further-counters)",
                   value_at({"counters", "shared_load_conflicts"}));
  list.add_measure("shared_conflicts_st", "smem st confl.", "", kSignificant,
                   "bank conflicts of stores to shared memory (--further-counters)",
                   value_at({"counters", "shared_store_conflicts"}));
  list.add_measure("cache_claim", "cache claim", "", kPlain,
                   "hot or cold caches: proved, unproved or rejected by the counters",
                   value_at({"cache_claim", "verdict"}));
  list.add_measure("executed", "executed", "", kPlain, "kernels that really ran, symbols",
                   read_executed);
  list.add_measure("beyond", "beyond", "", kPlain,
                   "of these, what the operation does not need: copies, casts and fills",
                   read_beyond);
  list.add_measure("beyond_percent", "beyond %", "%", kSignificant,
                   "share of these in the time of all, while they were traced",
                   read_beyond_percent);
}

void add_roof_fields(FieldList& list) {
  list.add_measure("intensity", "FLOP/byte", "FLOP/byte", kSignificant,
                   "arithmetic intensity: useful FLOPs / requested bytes",
                   [](const RecordJson& record) {
                     return quotient(at(record, {"flops", "useful"}), read_requested_bytes(record));
                   });
  list.add_measure("compulsory_intensity", "FLOP/comp. byte", "FLOP/byte", kSignificant,
                   "useful FLOPs / compulsory bytes",
                   value_at({"roof", "intensity_flop_per_byte"}));
  list.add_measure("dram_intensity", "FLOP/dram byte", "FLOP/byte", kSignificant,
                   "useful FLOPs / measured bytes of the DRAM",
                   value_at({"roof", "dram_intensity_flop_per_byte"}));
  list.add_measure("binds", "binds", "", kPlain,
                   "the peak that binds useful FLOPs and compulsory bytes: compute or memory",
                   value_at({"roof", "binds"}));
  list.add_measure("pct_peak", "peak %", "%", kSignificant,
                   "rate / settled measured peak of what binds (attnlab peak)",
                   value_at({"roof", "percent_of_roof"}), read_interval);
}

}  // namespace attnlab
