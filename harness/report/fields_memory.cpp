// Defines fields of memory: allocated, and moved according to the schedule.
#include <utility>

#include "harness/report/field_list.h"

namespace attnlab {

RecordJson read_requested_bytes(const RecordJson& record) {
  const RecordJson read = at(record, {"traffic", "requested_read_bytes"});
  const RecordJson write = at(record, {"traffic", "requested_write_bytes"});
  if (!read.is_number() || !write.is_number()) return nullptr;
  return read.get<double>() + write.get<double>();
}

namespace {

// Turns a reader of bytes into one of MiB.
template <class Read>
auto in_mib(Read read) {
  return [read](const RecordJson& record) -> RecordJson {
    const RecordJson bytes = read(record);
    if (bytes.is_null()) return nullptr;
    return bytes.get<double>() * kMibPerByte;
  };
}

// Returns the rows of q, or of k, of all entries together.
double tokens_of(const RecordJson& problem, const char* seqlen, const char* lengths) {
  if (problem.at("layout") != "packed") {
    return problem.at("batch").get<double>() * problem.at(seqlen).get<double>();
  }
  double sum = 0.0;
  for (const RecordJson& length : problem.at("lengths").at(lengths)) sum += length.get<double>();
  return sum;
}

// Returns the bytes of q, k, v, and dO of a backward, which a peer's record does not count: it has
// what the peer allocated itself.
double bytes_of_inputs(const RecordJson& problem) {
  const auto number = [&](const char* key) { return problem.at(key).get<double>(); };
  const double rows = number("num_heads_q") * tokens_of(problem, "seqlen_q", "queries");
  const double keys = number("num_heads_kv") * tokens_of(problem, "seqlen_k", "keys");
  const double rows_read = problem.at("pass") == "fwd" ? rows : 2.0 * rows;
  if (problem.at("dtype") == "e4m3") {  // fp32, and codes: of v also transposed
    return number("head_dim") * (5.0 * rows_read + 11.0 * keys);
  }
  const double element = problem.at("dtype") == "f32" ? 4.0 : 2.0;
  return number("head_dim") * element * (rows_read + 2.0 * keys);
}

// Returns the peak with the inputs, of peers too, so that all count the same.
RecordJson read_peak_bytes(const RecordJson& record) {
  const RecordJson own = at(record, {"memory", "peak_bytes"});
  if (own.is_number()) return own;
  const RecordJson beside_inputs = at(record, {"peer", "peak_bytes"});
  if (!beside_inputs.is_number()) return nullptr;
  return beside_inputs.get<double>() + bytes_of_inputs(record.at("problem"));
}

}  // namespace

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
  list.add_measure("peak_mib", "peak MiB", "MiB", NumberFormat::significant,
                   "measured peak with the inputs: ours by the arena, a peer's by its allocator",
                   in_mib(read_peak_bytes));
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
                   "what the schedule loads and stores (modelled)", in_mib(read_requested_bytes));
}

}  // namespace attnlab
