// A sweep says what to run: the product of its axes (or the union of several) is a list of cases.
// It comes from a JSON file, from flags, or from a file with axes overridden by flags; all three
// pass through the same grammar, so a key of the file and a flag of the same name take the same
// values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/plan/case.h"
#include "harness/plan/protocol.h"
#include "kernels/api/registry.h"

namespace attnlab {

// Holds the axes in the order in which the product is formed: the first changes slowest. An empty
// optional axis means "the kernel's default" or "the same as".
struct Axes {
  std::vector<Pass> pass = {Pass::fwd};
  std::vector<Dtype> dtype = {Dtype::f32};
  std::vector<Layout> layout = {Layout::bshd};
  // These three apply to e4m3 alone; where they are empty, Quantisation's defaults hold.
  std::vector<ScaleOf> quant;
  std::vector<ScaleOf> quant_v;
  std::vector<std::int64_t> rotate;
  std::vector<std::int64_t> batch = {1};
  std::vector<std::int64_t> heads = {8};
  std::vector<std::int64_t> heads_kv;  // empty: as heads
  std::vector<std::int64_t> head_dim = {64};
  std::vector<MaskSpec> mask = {MaskSpec{}};
  std::vector<Lengths> lengths = {
      Lengths{}};  // not `given`: drawn from the seed; kind is left open
  std::vector<double> dropout = {0.0};
  std::vector<double> softmax_scale = {0.0};  // 0: 1 / sqrt(head_dim)
  std::vector<std::int64_t> seqlen;  // both, unless one of the next two is given; empty: 1024
  std::vector<std::int64_t> seqlen_q;
  std::vector<std::int64_t> seqlen_k;
  std::vector<InputKind> input_kind = {InputKind::normal};
  std::vector<std::uint64_t> seed = {7};
  std::vector<std::string> kernel;  // empty: every kernel of the backend
  // These two set axes of the kernels' configs, where a kernel has them; what is not given keeps
  // the kernel's default.
  std::vector<std::pair<std::int64_t, std::int64_t>> block;              // block_m, block_n
  std::map<std::string, std::vector<std::int64_t>, std::less<>> config;  // by the axis' name
};

enum class BackendChoice : std::uint8_t { automatic, cpu, cuda };

// Records points that match every named value as skipped, with the reason.
struct Exclusion {
  std::vector<std::pair<std::string, std::vector<std::string>>> where;  // axis -> canonical values
  std::string reason;
};

struct Sweep {
  std::string name;
  std::string description;
  std::string source;  // the file it came from, or "command line"
  BackendChoice backend = BackendChoice::automatic;
  std::vector<Axes> axes = {Axes{}};  // the union of their products
  std::vector<std::string> peers;     // that compete with the kernels on every case
  std::vector<Exclusion> exclude;
  bool tune = false;  // every config that a kernel wants tried, where axes leave its values open
  bool overridden = false;  // flags replaced axes of the file: an exclusion may match no point
  ProtocolSettings protocol;
  std::shared_ptr<const QkvTensors> input;  // not null: of all cases (use_input_file() sets it)
};

}  // namespace attnlab
