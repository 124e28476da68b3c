// Fields of memory: allocated, and moved according to the schedule.
#include <utility>

#include "harness/report/field_list.h"

namespace attnlab {

RecordJson read_requested_bytes(const RecordJson& record) {
  const RecordJson read = at(record, {"traffic", "requested_read_bytes"});
  const RecordJson write = at(record, {"traffic", "requested_write_bytes"});
  if (!read.is_number() || !write.is_number()) return nullptr;
  return read.get<double>() + write.get<double>();
}

void add_memory_fields(FieldList& list) {
  const auto add = [&list](const char* name, const char* title, Path path, const char* summary) {
    list.add_measure(name, title, "MiB", NumberFormat::significant, summary,
                     scaled(std::move(path), kMibPerByte));
  };
  add("inputs_mib", "inputs MiB", {"memory", "inputs_bytes"},
      "q, k, v in memory; with a backward dO, and o where it is read");
  add("outputs_mib", "outputs MiB", {"memory", "outputs_bytes"}, "outputs in memory");
  add("saved_mib", "saved MiB", {"memory", "saved_bytes"},
      "lse, and what the kernel saves for its backward");
  add("workspace_mib", "work MiB", {"memory", "workspace_bytes"},
      "memory beyond inputs and outputs");
  add("peak_mib", "peak MiB", {"memory", "peak_bytes"}, "measured peak of the memory");
  add("compulsory_mib", "compulsory MiB", {"traffic", "compulsory_bytes"},
      "each tensor moved once");
  add("requested_read_mib", "req. read MiB", {"traffic", "requested_read_bytes"},
      "what the schedule loads (modelled)");
  add("requested_write_mib", "req. write MiB", {"traffic", "requested_write_bytes"},
      "what the schedule stores (modelled)");
  const auto tiles = [&list](const char* name, const char* key, const char* summary) {
    list.add_measure(name, name, "", NumberFormat::plain, summary,
                     value_at({"traffic", "tiles", key}));
  };
  tiles("tiles_empty", "empty", "tiles of the attention matrix that were skipped");
  tiles("tiles_partial", "partial", "tiles on the border of the mask");
  tiles("tiles_full", "full", "tiles that are visible as a whole");
  list.add_measure("visible_blocks", "visible %", "%", NumberFormat::significant,
                   "blocks of a block mask that are visible",
                   moved({"problem", "blocks", "visible_fraction"}, 2));
  list.add_measure("requested_mib", "requested MiB", "MiB", NumberFormat::significant,
                   "what the schedule loads and stores (modelled)",
                   [](const RecordJson& record) -> RecordJson {
                     const RecordJson bytes = read_requested_bytes(record);
                     if (bytes.is_null()) return nullptr;
                     return bytes.get<double>() * kMibPerByte;
                   });
}

}  // namespace attnlab
