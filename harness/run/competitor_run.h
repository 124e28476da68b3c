// Holds one competitor on its way through a case: its record, prepared kernel and tensors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harness/record/record.h"
#include "harness/run/peer.h"
#include "harness/tensors/outputs.h"

namespace attnlab {

struct ReleasePrepared {
  const Implementation* implementation;
  void operator()(PreparedKernel* prepared) const { implementation->release(prepared); }
};
using Prepared = std::unique_ptr<PreparedKernel, ReleasePrepared>;

// Holds the same kernel, prepared so that it writes a timeline, too.
struct TimelineRun {
  Arena::Buffer items;  // TimelineItem, `count` of them
  std::int64_t count = 0;
  Prepared prepared;
};

struct CompetitorRun {
  const Competitor* competitor;
  Record record;
  bool finished = false;
  std::unique_ptr<LibraryPeer> peer;  // in place of all that follows
  Prepared prepared{nullptr, {nullptr}};
  std::optional<Outputs> forward;  // Pass::bwd: o, lse and what else its own forward left
  std::optional<Outputs> outputs;  // of the timed launches
  std::optional<Outputs> spare;    // of launches between samples, as large
  std::string why_no_spare;
  NamedBuffers::Contents verified;  // of the outputs of the launch that was verified
  // Judges what launches after the first have left; throws what Judge::judge() throws.
  std::function<void(const Outputs&)> judge_later;
  OutputChecks checks;  // what was seen of the outputs while it was timed
  std::optional<TimelineRun> timeline;
  Tensors tensors;  // what the timed launches get
  // Queues a launch as they are timed, on the next of its sets of inputs.
  std::function<void()> launch_next;

  const Implementation& kernel() const { return *competitor->implementation; }
  const Problem& problem() const { return record.point.problem; }
  std::uint64_t workspace_bytes() const { return record.memory->workspace_bytes; }
  std::string name() const;

  // Compiles what the pass needs (and the forward before a backward) into record.compilations.
  // Throws std::runtime_error with the compiler's words.
  void compile(const Problem& problem, const Device& device);

  Prepared prepare(const Problem& problem, const Device& device) const;

  // Must come first for Pass::bwd: makes o, lse and the saved state by this competitor's own
  // forward, with a workspace of its own, and seals them. Returns where it wrote outside of its
  // tensors, "" if nowhere.
  std::string run_forward(Arena& arena, const Problem& problem, const Device& device,
                          const Tensors& inputs);

  // Prepares the kernel. Throws std::bad_alloc, and std::runtime_error with the compiler's words.
  TimelineRun prepare_timeline(Arena& arena, const Device& device) const;

  // Queues one launch of the prepared kernel.
  void launch(const Tensors& given, Runtime& runtime) const;

  Outputs make_outputs(Arena& arena, const Problem& problem) const;

  // Returns what a launch gets: the inputs, for a backward what its forward left, the outputs, and
  // as much of the workspace as the competitor asked for.
  Tensors attach(const Tensors& inputs, const Outputs& own, const Arena::Buffer& workspace) const;
};

}  // namespace attnlab
