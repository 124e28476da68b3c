// Names the points of v3's forward on which tests look at its work items.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "tests/gpu/gpu_fixture.h"

namespace attnlab {

struct ForwardCase {
  const char* name;
  std::int64_t consumers;  // one: three blocks share a multiprocessor
  std::int64_t seqlen_q;
  std::int64_t seqlen_k;
  std::int64_t slices = 24;
  const char* mask = "causal";             // none: items are handed out with a static stride
  std::vector<std::int64_t> queries = {};  // of packed entries
  std::vector<std::int64_t> keys = {};
  std::int64_t producer = 1;
};

inline void PrintTo(const ForwardCase& what, std::ostream* stream) { *stream << what.name; }

inline Problem problem_of(const ForwardCase& what) {
  Problem problem = {.dtype = Dtype::f16,
                     .num_heads_q = what.slices,
                     .num_heads_kv = what.slices,
                     .seqlen_q = what.seqlen_q,
                     .seqlen_k = what.seqlen_k,
                     .head_dim = 64,
                     .mask = parse_mask(what.mask),
                     .layout = Layout::bhsd};
  if (!what.queries.empty()) pack(problem, what.queries, what.keys);
  return problem;
}

inline const Implementation& v3_on_gpu() { return *builtin_registry().find("v3", Backend::cuda); }

// Returns the config that the case asks of v3.
inline Config config_of(const ForwardCase& what) {
  Config asked = default_config(v3_on_gpu());
  asked.set("consumers", what.consumers);
  asked.set("block_n", what.consumers == 1 ? 64 : 128);
  asked.set("producer", what.producer);
  return asked;
}

}  // namespace attnlab
