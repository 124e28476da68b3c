// Defines cases and groups: a case is one problem and all that compete on it, a sweep is a list of
// cases, and those that differ in layout alone form a group.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/api/implementation.h"
#include "reference/storage.h"

namespace attnlab {

struct QkvTensors;

// `file` means the user's own tensors; the axis has no such value.
enum class InputKind : std::uint8_t {
  normal,
  uniform,
  integers,
  large_logits,
  outlier,
  outlier_channel,
  v_one,
  v_mean_one,
  sink,
  file
};
const char* to_string(InputKind kind);

// Names one kernel that runs a case, or the reason why it does not.
struct Competitor {
  std::string kernel;  // or a peer, like "torch:flash" (harness/plan/peer_names.h)
  Backend backend = Backend::cpu;
  // It is null for a peer, or if this backend has no such kernel.
  const Implementation* implementation = nullptr;
  Config config;  // that runs
  Config asked;   // as it was asked for, where `config` fills in what it leaves open; else empty
  std::string unsupported;  // not empty: recorded as `unsupported`
  std::string skipped;      // not empty: recorded as `skipped` (an exclusion's reason)
  bool tried = false;       // for tuning; nobody asked for it
};

// Holds one problem with one set of inputs, and all that compete on it, interleaved.
struct Case {
  Problem problem;
  InputKind input_kind = InputKind::normal;
  std::uint64_t seed = 0;
  std::vector<Competitor> competitors;
  std::shared_ptr<const QkvTensors> input;  // InputKind::file: where q, k, v come from
};

// Holds cases that differ in layout alone: their inputs are the same numbers in other places, so
// what is right for one is right for all, and all that compete on them take turns.
using CaseGroup = std::vector<Case>;

// Puts each case in one group, in the order of the first of each. Packed entries stay alone, since
// their lengths are their own, and so do the tensors of a file, which has one layout.
std::vector<CaseGroup> group_layouts(const std::vector<Case>& cases);

// Returns the precision of a kernel's products, which its twin has to share: TF32 of f32 alone, and
// sums of e4m3 that are not promoted, where the config's axis of these roles says so. A peer (null)
// has no such axis.
reference::Products products_of(const Problem& problem, const Implementation* kernel,
                                const Config& config);

// Returns whether launches of a pass must leave the same bits. They must, unless the kernel has an
// axis that fixes the order of sums and it is 0: then gradients take another order each launch.
bool has_fixed_order(const Implementation& kernel, const Config& config, Pass pass);

// Returns whether it takes part in its case at all: its kernel exists (or it is a peer), and is
// neither unsupported nor skipped.
bool wants_to_run(const Competitor& competitor);

}  // namespace attnlab
