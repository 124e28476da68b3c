// Asks the kernels' own schedules about a point: its work items, what the neighbouring tiles would
// ask for, and what the other kernels would. Nothing is run or compiled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/case.h"
#include "harness/report/field.h"
#include "kernels/api/registry.h"

namespace attnlab {

// Describes one tile: the point's own, or one step from it.
struct TileFact {
  std::string change;  // "block_n 112"; "this" of the point's own
  Config config;
  std::string reason;                  // why it does not run; empty: it does
  std::optional<double> items;         // work items of a forward without packing
  std::optional<double> bytes, flops;  // requested and executed
  std::optional<double> shared_bytes;  // of a block; empty: nothing is compiled for it
  std::optional<double> registers;     // of a thread, where a record says
  std::optional<double> median_s;      // where a record says
  std::string command;                 // runs it
};

// Says what another kernel would ask HBM for.
struct KernelFact {
  std::string kernel;
  double bytes = 0.0;
  std::string command;
};

struct TileFacts {
  std::string reason;              // why there are none; empty: there are
  bool tf32 = false;               // products round their factors
  double most_shared_bytes = 0.0;  // that a block may have; 0: not known
  std::string way;  // the flag of the record's protocol that commands have; may be empty
  TileFact own;
  std::vector<TileFact> neighbours;
  std::vector<KernelFact> others;  // of the same backend, the one that asks for least first
};

// Holds the one point of a sweep that a record is of, as its device would run it.
struct RecordedPoint {
  Case work;
  Device device;
  std::string reason;  // why it cannot be built again: a peer, a pattern of a file, ...
};
RecordedPoint recorded_point(const RecordJson& record, const Registry& registry);

// Returns the record that the point would have if it were not run: without a time, or
// `unsupported`.
RecordJson paper_record(const RecordedPoint& point);

// Describes the tiles of work.competitors[0]. `records` of the same file may have measured
// neighbours of `record`.
TileFacts tile_facts(const RecordedPoint& point, const Registry& registry, const RecordJson& record,
                     const std::vector<RecordJson>& records);

}  // namespace attnlab
