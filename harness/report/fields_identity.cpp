// Defines fields of what was run: the problem, the kernel, where and when.
#include <cmath>

#include "harness/plan/builtin_axes.h"
#include "harness/report/field_list.h"
#include "harness/report/fields.h"

namespace attnlab {
namespace {

// Reads the lengths that were given: keys of each entry, or queries x keys where they differ.
RecordJson read_lengths(const RecordJson& record) {
  const RecordJson lengths = at(record, {"problem", "lengths"});
  if (at(lengths, {"given"}) != true) return nullptr;
  const RecordJson keys = at(lengths, {"keys"});
  const RecordJson queries = at(lengths, {"queries"});
  std::string text;
  for (std::size_t b = 0; b < keys.size(); ++b) {
    const bool differ = queries.is_array() && queries.at(b) != keys.at(b);
    text += (b == 0 ? "" : "+") + (differ ? exact(queries[b]) + "x" : "") + exact(keys[b]);
  }
  return text;
}

RecordJson read_seqlen(const RecordJson& record) {
  const RecordJson queries = at(record, {"problem", "seqlen_q"});
  return queries == at(record, {"problem", "seqlen_k"}) ? queries : RecordJson();
}

// Reads the scale; null for 1 / sqrt(head_dim), as in most records.
RecordJson read_scale(const RecordJson& record) {
  const RecordJson scale = at(record, {"problem", "softmax_scale"});
  const RecordJson head_dim = at(record, {"problem", "head_dim"});
  if (!scale.is_number() || !head_dim.is_number()) return nullptr;
  return scale == 1.0 / std::sqrt(head_dim.get<double>()) ? RecordJson() : scale;
}

// Reads the text of the config under `key`.
FieldReader config_text_at(const char* key) {
  return [key](const RecordJson& record) -> RecordJson {
    const RecordJson config = at(record, {key});
    if (!config.is_object() || config.empty()) return nullptr;
    std::string text;
    for (const auto& [name, value] : config.items()) {
      text += (text.empty() ? "" : ",") + name + "=" + exact(value);
    }
    return text;
  };
}

RecordJson read_block(const RecordJson& record) {
  const RecordJson rows = at(record, {"config", "block_m"});
  const RecordJson keys = at(record, {"config", "block_n"});
  if (rows.is_null() || keys.is_null()) return nullptr;
  if (rows == 0 && keys == 0) return nullptr;  // as the kernel itself chooses
  return exact(rows) + "x" + exact(keys);
}

RecordJson read_input_file(const RecordJson& record) {
  const RecordJson path = at(record, {"input_file", "path"});
  const RecordJson hash = at(record, {"input_file", "fnv1a"});
  if (!path.is_string() || !hash.is_string()) return nullptr;
  return path.get<std::string>() + "#" + hash.get<std::string>();
}

}  // namespace

void add_problem_fields(FieldList& list) {
  const auto add = [&list](const char* name, const char* key, const char* summary) {
    list.add_axis(name, summary, value_at({"problem", key}));
  };
  add("pass", "pass", "what was computed: fwd, bwd or fwdbwd");
  add("dtype", "dtype", "storage type of q, k, v and o");
  add("layout", "layout", "order of the dimensions in memory");
  const auto add_e4m3 = [&list](const char* name, const char* summary) {
    list.add_axis(name, summary, value_at({"problem", "quantisation", name}));
  };
  add_e4m3("quant", "of e4m3: what shares a scale of q and k");
  add_e4m3("quant_v", "of e4m3: what shares a scale of v");
  add_e4m3("rotate", "of e4m3: 1: q and k are rotated");
  add("batch", "batch", "batch entries");
  add("heads", "num_heads_q", "query heads");
  add("heads_kv", "num_heads_kv", "key/value heads");
  add("head_dim", "head_dim", "elements of one head");
  add("mask", "mask", "the mask in its text form");
  list.add_axis("lengths", "keys (or queries x keys) of each entry, where they were given",
                read_lengths);
  add("dropout", "dropout", "dropout probability");
  list.add_axis("softmax_scale", "factor of the scores, where it is not 1 / sqrt(head_dim)",
                read_scale);
  list.add_axis("seqlen", "sequence length, where seqlen_q = seqlen_k", read_seqlen);
  add("seqlen_q", "seqlen_q", "queries of an entry");
  add("seqlen_k", "seqlen_k", "keys of an entry");
  list.add_axis("input_kind", "distribution of the inputs", value_at({"input_kind"}));
  list.add_axis("input_file", "the user's file that q, k, v came from, and its hash: PATH#HASH",
                read_input_file);
  list.add_axis("seed", "seed of inputs, dropout and lengths", value_at({"seed"}));
}

void add_kernel_fields(FieldList& list) {
  list.add_identity("kernel", "the kernel's name", value_at({"kernel"}));
  list.add_identity("backend", "cpu or cuda", value_at({"backend"}));
  list.add_identity("config", "all values of the kernel's config axes", config_text_at("config"));
  list.add_identity("config_asked", "the same as asked for, where the kernel chose some of them",
                    config_text_at("config_asked"));
  list.add_identity("block", "tile: block_m x block_n", read_block);
  for (const SharedAxis& axis : builtin_axes()) {  // `config` has what records hold beyond them
    const char* const name = axis.help.name.c_str();
    list.add_identity(name, axis.help.summary.c_str(), value_at({"config", name}));
  }
  list.add_identity("status", "ok, failed, unsupported, out_of_memory, invalid or skipped",
                    value_at({"status"}));
  list.add_identity("reason", "why the status is not ok", value_at({"reason"}));
}

void add_origin_fields(FieldList& list) {
  // Older records were all taken with hot caches.
  list.add_identity("cache", "hot or cold caches, as the protocol asks",
                    [](const RecordJson& record) {
                      const RecordJson cache = at(record, {"protocol", "cache"});
                      return cache.is_null() ? RecordJson("hot") : cache;
                    });
  list.add_identity("regime", "burst or settled, as the protocol asks",
                    value_at({"protocol", "regime"}));
  list.add_identity("device", "where it ran", value_at({"device", "name"}));
  list.add_identity("isa", "instruction set that the CPU kernels used",
                    value_at({"device", "isa"}));
  list.add_identity("threads", "CPU threads", value_at({"device", "threads"}));
  list.add_identity("commit", "commit of the build", value_at({"build", "commit"}));
  list.add_identity("sweep", "the sweep that ran it", value_at({"sweep"}));
  list.add_identity("timestamp", "when it ended, UTC", value_at({"timestamp"}));
}

}  // namespace attnlab
