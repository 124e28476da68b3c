// Plans the fixed shapes: odd and unequal lengths, every kind of mask, dropout, packed batches,
// head dims, grouped heads, layouts, scales, kinds of inputs, what is far from the beginning, tile
// sizes, instruction sets; every type, every pass.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/base/derive_seed.h"
#include "harness/verify/checks.h"
#include "harness/verify/values.h"

namespace attnlab::verify {

namespace {

constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16};

// Says what is launched beside forward and backward in one go, which every shape gets. by_default:
// nothing else, and only the kernel's own tiles.
enum class Launches { together, also_apart, by_default };

// This budget makes the oracle compare every element of a shape although it is large.
constexpr std::int64_t kEverything = std::int64_t{1} << 40;

struct Shape {
  std::string name;
  Problem problem;
  Launches launches = Launches::together;
  InputKind kind = InputKind::normal;
  Subject::Edit edit = {};
  std::int64_t budget = Subject::kBudget;
};

Problem make_problem(std::int64_t seqlen_q, std::int64_t seqlen_k, const std::string& mask,
                     std::int64_t head_dim = 16) {
  Problem problem = {.num_heads_q = 2,
                     .num_heads_kv = 1,
                     .seqlen_q = seqlen_q,
                     .seqlen_k = seqlen_k,
                     .head_dim = head_dim,
                     .mask = parse_mask(mask)};
  if (problem.mask.padding) {
    problem.batch = 3;
    problem.lengths = {
        .kind = LengthsKind::padding, .given = true, .keys = {seqlen_k, (seqlen_k + 1) / 2, 0}};
  }
  return problem;
}

Problem make_packed(std::vector<std::int64_t> queries, std::vector<std::int64_t> keys,
                    const std::string& mask) {
  Problem problem =
      make_problem(*std::ranges::max_element(queries), *std::ranges::max_element(keys), mask);
  problem.batch = static_cast<std::int64_t>(queries.size());
  problem.layout = Layout::packed;
  problem.lengths = {.kind = LengthsKind::packed,
                     .given = true,
                     .queries = std::move(queries),
                     .keys = std::move(keys)};
  return problem;
}

void add_odd_lengths(std::vector<Shape>& shapes) {
  for (const std::int64_t seqlen : {1,   2,   3,   63,  64,  65,   97,   113,  127,  128,  129, 200,
                                    239, 257, 511, 512, 799, 1023, 1024, 1025, 2048, 4096, 4224}) {
    for (const char* mask : {"none", "causal"}) {
      shapes.push_back({.name = fmt::format("lengths/{}/{}", seqlen, mask),
                        .problem = make_problem(seqlen, seqlen, mask),
                        .launches = seqlen <= 257 ? Launches::also_apart : Launches::together});
    }
  }
}

void add_unequal_lengths(std::vector<Shape>& shapes) {
  for (const char* mask : {"none", "causal", "window:17:0", "window:0:33", "window:-1:5",
                           "window:40:-1", "padding", "padding+causal", "window:9:9+padding"}) {
    for (const auto& [seqlen_q, seqlen_k] :
         {std::pair{1L, 257L}, {257L, 1L}, {65L, 200L}, {200L, 65L}, {128L, 512L}, {511L, 97L}}) {
      shapes.push_back({.name = fmt::format("unequal/{}x{}/{}", seqlen_q, seqlen_k, mask),
                        .problem = make_problem(seqlen_q, seqlen_k, mask)});
    }
  }
}

void add_block_patterns(std::vector<Shape>& shapes) {
  for (const char* mask :
       {"blocks:butterfly:16x16", "blocks:local:1:32x24", "blocks:strided:1:4:64x7",
        "blocks:longformer:1:1:16x24", "blocks:bigbird:1:1:2:16x16", "blocks:random:20:32x8",
        "causal+blocks:butterfly:16x16", "window:50:3+blocks:bigbird:1:1:1:16x8",
        "padding+blocks:local:0:32x32",
        // These have blocks of several tiles, large ones among them.
        "blocks:random:40:128x128", "causal+blocks:random:30:256x256"}) {
    for (const std::int64_t seqlen : {1, 31, 200, 513}) {
      shapes.push_back({.name = fmt::format("blocks/{}/{}", seqlen, mask),
                        .problem = make_problem(seqlen, seqlen, mask)});
    }
  }
}

void add_dropout(std::vector<Shape>& shapes) {
  for (const double dropout : {0.1, 0.5, 0.99}) {
    for (const char* mask : {"none", "causal", "padding", "blocks:butterfly:16x16"}) {
      for (const std::int64_t seqlen : {1, 33, 150, 300}) {
        Problem problem = make_problem(seqlen, seqlen, mask, 24);
        problem.dropout = dropout;
        shapes.push_back({.name = fmt::format("dropout/{}/{}/{}", dropout, seqlen, mask),
                          .problem = problem,
                          .launches = seqlen == 33 ? Launches::also_apart : Launches::together});
      }
    }
  }
}

void add_packed(std::vector<Shape>& shapes) {
  for (const char* mask : {"none", "causal", "window:20:5", "blocks:local:1:16x16"}) {
    for (const double dropout : {0.0, 0.2}) {
      const bool pattern = std::string(mask).starts_with("blocks");
      Problem problem = pattern ? make_packed({70, 1, 129, 0, 31}, {70, 1, 129, 0, 31}, mask)
                                : make_packed({70, 0, 129, 40, 31}, {55, 70, 200, 0, 31}, mask);
      problem.dropout = dropout;
      shapes.push_back({.name = fmt::format("packed/{}/dropout{}", mask, dropout),
                        .problem = problem,
                        .launches = Launches::also_apart});
    }
  }
}

// Adds entries that end where tiles of keys and of rows do.
void add_packed_at_borders(std::vector<Shape>& shapes) {
  for (const char* mask : {"none", "causal"}) {
    shapes.push_back(
        {.name = fmt::format("packed/borders/{}", mask),
         .problem = make_packed({128, 384, 0, 256, 64}, {256, 384, 128, 64, 128}, mask),
         .budget = kEverything});
  }
}

void add_head_dims(std::vector<Shape>& shapes) {
  const auto add = [&](std::int64_t head_dim, const Problem& problem) {
    shapes.push_back({.name = fmt::format("head_dim/{}/{}", head_dim, to_string(problem.mask)),
                      .problem = problem});
  };
  for (std::int64_t head_dim = 1; head_dim <= 256; head_dim += head_dim < 72 ? 1 : 23) {
    add(head_dim, make_problem(33, 50, "causal", head_dim));
  }
  add(128, make_problem(200, 300, "causal", 128));  // several tiles of either side
  add(256, make_problem(65, 129, "none", 256));
  // v3's consumers see different tiles of it.
  shapes.push_back(
      {.name = "head_dim/256/300x300/causal", .problem = make_problem(300, 300, "causal", 256)});
  for (const std::int64_t head_dim : {192, 256}) {  // several tiles, also of the largest kind
    add(head_dim, make_problem(200, 450, "window:300:9", head_dim));
    add(head_dim, make_problem(200, 200, "causal+blocks:random:40:32x24", head_dim));
  }
  Problem packed = make_packed({70, 0, 129, 1, 31}, {55, 70, 200, 0, 31}, "causal");
  packed.head_dim = 200;
  packed.dropout = 0.2;
  shapes.push_back({.name = "head_dim/200/packed/dropout0.2", .problem = packed});
}

// Adds more work items than a GPU has places for blocks, up to four a multiprocessor: a block that
// is done takes another one.
void add_many_items(std::vector<Shape>& shapes) {
  const auto add = [&shapes](std::int64_t heads, const char* mask, std::int64_t head_dim) {
    Problem problem = make_problem(33, 33, mask, head_dim);
    problem.batch = 5;
    problem.num_heads_q = problem.num_heads_kv = heads;
    shapes.push_back(
        {.name = fmt::format("items/5x{}/{}/d{}", heads, mask, head_dim), .problem = problem});
  };
  add(128, "none", 8);
  add(128, "causal", 8);
  add(60, "none", 256);  // few such blocks fit on chip
}

// Adds groups of query heads for each K/V head: 1, 4, 8, all.
void add_heads(std::vector<Shape>& shapes) {
  for (const Layout layout : {Layout::bshd, Layout::bhsd}) {
    for (const std::int64_t heads_kv : {16, 4, 2, 1}) {
      Problem problem = make_problem(70, 90, "causal", 24);
      problem.batch = 2;
      problem.num_heads_q = 16;
      problem.num_heads_kv = heads_kv;
      problem.layout = layout;
      problem.softmax_scale = heads_kv == 4 ? 0.37 : 0.0;
      shapes.push_back({.name = fmt::format("heads/{}/16x{}", to_string(layout), heads_kv),
                        .problem = problem,
                        .launches = Launches::also_apart});
    }
  }
}

// Adds groups of query heads whose size is no power of 2.
void add_odd_groups(std::vector<Shape>& shapes) {
  for (const std::int64_t group : {3, 5, 6, 7}) {
    Problem problem = make_problem(70, 90, "causal", 24);
    problem.batch = 2;
    problem.num_heads_kv = 2;
    problem.num_heads_q = 2 * group;
    problem.layout = group % 2 == 0 ? Layout::bhsd : Layout::bshd;
    shapes.push_back({.name = fmt::format("heads/{}/{}x2", to_string(problem.layout), 2 * group),
                      .problem = problem,
                      .budget = kEverything});
  }
}

// Adds more entries of a batch than other shapes have, each of a length of its own.
void add_many_entries(std::vector<Shape>& shapes) {
  const std::vector<std::int64_t> rows = {9, 0, 33, 1, 17, 40, 5, 64, 22, 31, 2, 48};
  const std::vector<std::int64_t> keys = {30, 7, 65, 12, 1, 50, 0, 33, 44, 8, 71, 19};
  shapes.push_back({.name = "entries/packed", .problem = make_packed(rows, keys, "causal")});
  Problem padded = make_problem(40, 71, "padding");
  padded.batch = static_cast<std::int64_t>(keys.size());
  padded.lengths.keys = keys;
  shapes.push_back({.name = "entries/padded", .problem = padded});
  Problem grouped = make_problem(40, 50, "causal", 24);
  grouped.num_heads_q = 20;  // of one K/V head
  shapes.push_back({.name = "heads/bshd/20x1", .problem = grouped, .budget = kEverything});
}

// Adds scales: far below 1 all keys weigh alike, far above it a row sees one.
void add_scales(std::vector<Shape>& shapes) {
  for (const double scale : {0.001, 1.0, 64.0}) {
    Shape shape = {.name = fmt::format("scale/{}", scale),
                   .problem = make_problem(65, 130, "causal", 32)};
    shape.problem.softmax_scale = scale;
    shapes.push_back(shape);
  }
}

// Adds what is far from the beginning: keys, rows, slices, entries of a batch, elements. Each but
// one is long in one way alone, so that the oracle compares all of it.
void add_far(std::vector<Shape>& shapes) {
  const auto add = [&shapes](const std::string& name, const Problem& problem) {
    shapes.push_back({.name = "far/" + name,
                      .problem = problem,
                      .launches = Launches::by_default,
                      .budget = kEverything});
  };
  for (const std::int64_t keys : {8193, 20000, 65536}) {
    add(fmt::format("keys/{}", keys), make_problem(9, keys, keys == 20000 ? "causal" : "none"));
  }
  for (const std::int64_t rows : {8200, 65536}) {
    add(fmt::format("rows/{}", rows), make_problem(rows, 7, "none"));
  }
  Problem dropout = make_problem(40, 4200, "none", 8);
  dropout.dropout = 0.2;
  add("dropout/keys", dropout);
  dropout = make_problem(33, 40, "causal", 8);
  dropout.batch = 3;
  dropout.num_heads_q = dropout.num_heads_kv = 100;  // a byte cannot count so many slices
  dropout.dropout = 0.2;
  add("dropout/slices", dropout);
  Problem both = make_problem(5200, 5100, "none", 8);
  both.num_heads_q = 1;
  add("rows-and-keys", both);
  for (const auto& [rows, keys] : {std::pair{20L, 1100L}, {1100L, 20L}}) {
    Problem heads = make_problem(rows, keys, "none", 8);
    heads.num_heads_q = heads.num_heads_kv = 9;
    add(fmt::format("heads/9/{}x{}", rows, keys), heads);
  }
  Problem slices = make_problem(17, 19, "none", 8);
  slices.batch = 11;
  slices.num_heads_q = 96;
  slices.num_heads_kv = 48;
  add("slices/11x96", slices);
  slices.batch = 1030;
  slices.num_heads_q = slices.num_heads_kv = 1;
  add("slices/1030x1", slices);
  Problem offsets = make_problem(33000, 5, "none", 128);  // 4.2 M elements a slice
  offsets.num_heads_q = 1;
  add("offsets/rows", offsets);
  std::swap(offsets.seqlen_q, offsets.seqlen_k);
  add("offsets/keys", offsets);
}

void add_kinds_of_inputs(std::vector<Shape>& shapes) {
  for (const InputKind kind : {InputKind::uniform, InputKind::integers, InputKind::large_logits,
                               InputKind::outlier, InputKind::outlier_channel}) {
    for (const char* mask : {"none", "causal"}) {
      shapes.push_back({.name = fmt::format("inputs/{}/{}", to_string(kind), mask),
                        .problem = make_problem(65, 130, mask, 32),
                        .kind = kind});
    }
  }
  for (const float factor : {0.0f, 8.0f, 30.0f}) {
    shapes.push_back({.name = fmt::format("inputs/logits-times-{}", factor),
                      .problem = make_problem(65, 130, "none", 32),
                      .edit = [factor](Inputs& inputs) {
                        const Values q = read_input(inputs, InputTensor::q);
                        inputs.fill(InputTensor::q, [&](auto b, auto h, auto row, auto col) {
                          return factor * q.at(b, h, row, col);
                        });
                      }});
  }
  // One key has nearly all of the weight, and V of it is 0: what the others weigh is all of O.
  shapes.push_back({.name = "inputs/sink-without-value",
                    .problem = make_problem(65, 130, "none", 32),
                    .edit = [](Inputs& inputs) {
                      constexpr float kGap = 9.5f;  // of its scores, in nats
                      const auto change = [&](InputTensor tensor, const auto& changed) {
                        const Values old = read_input(inputs, tensor);
                        inputs.fill(tensor, [&](auto b, auto h, auto row, auto col) {
                          return changed(row, col, old.at(b, h, row, col));
                        });
                      };
                      const auto head_dim = static_cast<float>(inputs.problem().head_dim);
                      change(InputTensor::q,
                             [](auto, auto col, float value) { return col == 0 ? 4.0f : value; });
                      change(InputTensor::k, [&](auto row, auto col, float value) {
                        return row == 0 && col == 0 ? value + kGap * std::sqrt(head_dim) / 4.0f
                                                    : value;
                      });
                      change(InputTensor::v,
                             [](auto row, auto, float value) { return row == 0 ? 0.0f : value; });
                    }});
  // These leave the range of f16, where the type has a larger one: O, and dP by the square.
  for (const float factor : {0x1p20f, 0x1p-20f}) {
    shapes.push_back({.name = fmt::format("inputs/values-times-2^{}", factor > 1.0f ? 20 : -20),
                      .problem = make_problem(65, 130, "causal", 32),
                      .edit = [factor](Inputs& inputs) {
                        if (inputs.problem().dtype == Dtype::f16) return;
                        for (const InputTensor tensor : {InputTensor::v, InputTensor::dout}) {
                          const Values old = read_input(inputs, tensor);
                          if (old.empty()) continue;  // no dO in a forward
                          inputs.fill(tensor, [&](auto b, auto h, auto row, auto col) {
                            return factor * old.at(b, h, row, col);
                          });
                        }
                      }});
  }
  // K, V and dO have one sign here: so O and dO point the same way, delta is as large as it gets,
  // and an error of it does not cancel in dQ.
  shapes.push_back(
      {.name = "inputs/positive",
       .problem = make_problem(65, 130, "none", 256),
       .edit = [](Inputs& inputs) {
         for (const InputTensor tensor : {InputTensor::k, InputTensor::v, InputTensor::dout}) {
           const Values old = read_input(inputs, tensor);
           if (old.empty()) continue;  // no dO in a forward
           inputs.fill(tensor, [&](auto b, auto h, auto row, auto col) {
             return std::abs(old.at(b, h, row, col));
           });
         }
       }});
}

struct Variant {
  std::string suffix;
  Setup setup;
};

// Returns the kernel's defaults, and small, uneven tiles if it has tiles and they are wanted.
std::vector<Variant> variants(const Setup& setup, Launches launches) {
  std::vector<Variant> result = {{"", setup}};
  if (launches != Launches::by_default && has_blocks(*setup.kernel))
    result.push_back({"/48x17", with_blocks(setup, 48, 17)});
  return result;
}

std::shared_ptr<Subject> make_subject(const Plan& plan, const Shape& shape, Dtype dtype) {
  const std::uint64_t seed = derive_seed(plan.options().seed, shape.name);
  Problem problem = shape.problem;
  problem.dtype = dtype;
  problem.seed = seed;
  return std::make_shared<Subject>(problem, shape.kind, seed, plan.device(), shape.edit,
                                   shape.budget);
}

void add_launches(Plan& plan, const Shape& shape, const std::shared_ptr<Subject>& subject,
                  const Implementation& kernel) {
  const std::string name = fmt::format("{}/{}", shape.name, to_string(subject->problem().dtype));
  const auto add = [&](const Setup& setup, const std::string& suffix) {
    plan.add_judged(setup, Part::shapes,
                    fmt::format("{}/{}{}", name, to_string(setup.pass), suffix), subject);
  };
  const Setup both = default_setup(kernel, plan.device(), Pass::fwdbwd);
  const bool has_both = unsupported(both, subject->problem()).empty();
  for (const auto& [suffix, setup] : variants(both, shape.launches)) add(setup, suffix);
  if (has_both && shape.launches != Launches::also_apart) return;
  Setup alone = both;
  alone.pass = Pass::fwd;
  for (const auto& [suffix, setup] : variants(alone, shape.launches)) {
    if (!has_both || suffix.empty()) add(setup, suffix);
  }
  alone.pass = Pass::bwd;
  if (shape.launches == Launches::also_apart) add(alone, "");
}

// Plans tiles of every size, down to one row or key. Kernels compiled for each tile are left out.
void plan_every_tile(Plan& plan) {
  Shape shape = {.name = "tiles", .problem = make_problem(150, 170, "causal", 40)};
  shape.problem.dropout = 0.2;
  const auto subject = make_subject(plan, shape, Dtype::f32);
  for (const Implementation* kernel : plan.kernels()) {
    if (!has_blocks(*kernel)) {
      plan.skip(*kernel, Part::shapes, "tiles", "has no tiles to choose");
      continue;
    }
    if (kernel->units != nullptr) continue;  // plan_compiled_configs() covers it
    const Setup setup = widest_setup(*kernel, plan.device(), subject->problem());
    for (const std::int64_t block_m : {1, 16, 30, 64, 128, 200}) {
      for (const std::int64_t block_n : {1, 16, 50, 64, 128, 256}) {
        plan.add_judged(with_blocks(setup, block_m, block_n), Part::shapes,
                        fmt::format("tiles/{}x{}", block_m, block_n), subject);
      }
    }
  }
}

// Makes all scores negative, 4 times as large as those of normal inputs.
void make_scores_negative(Inputs& inputs) {
  for (const InputTensor tensor : {InputTensor::q, InputTensor::k}) {
    const float factor = tensor == InputTensor::q ? 4.0f : -1.0f;
    const Values old = read_input(inputs, tensor);
    inputs.fill(tensor, [&](auto b, auto h, auto row, auto col) {
      return factor * std::abs(old.at(b, h, row, col));
    });
  }
}

// Returns shapes with several tiles each way, cut off by masks, by lengths and by a pattern; and
// rows whose every logit is so low that exp2 of it is 0 unless their own maximum is taken off, of
// one key and of whole tiles, whose maxima may be compared as integers.
std::vector<Shape> shapes_for(const ConfigsToVerify& group) {
  std::vector<Shape> shapes = {
      {.name = "causal", .problem = make_problem(300, 330, "causal")},
      {.name = "packed",
       .problem = make_packed({70, 0, 290, 40, 31}, {55, 70, 310, 0, 31}, "window:60:20")},
      {.name = "blocks", .problem = make_problem(300, 300, "padding+blocks:bigbird:1:1:2:16x16")},
      {.name = "one-key",
       .problem = make_problem(100, 1, "none"),
       .kind = InputKind::large_logits}};
  shapes.back().problem.softmax_scale = 1.0;
  shapes.push_back({.name = "negative-scores",
                    .problem = make_problem(100, 200, "none"),
                    .edit = make_scores_negative});
  for (Shape& shape : shapes) {
    shape.name = fmt::format("tiles/{}/d{}", shape.name, group.head_dim);
    shape.problem.head_dim = group.head_dim;
    shape.problem.dropout = group.dropout;
    shape.problem.quantisation = group.quantisation;
  }
  return shapes;
}

// Plans forward and backward apart: a tile that both can take is rare. e4m3 has no backward.
void plan_compiled_configs(Plan& plan, const Implementation& kernel, const ConfigsToVerify& group) {
  for (const Shape& shape : shapes_for(group)) {
    const auto subject = make_subject(plan, shape, group.dtype);
    for (const Config& config : group.configs) {
      for (const Pass pass : {Pass::fwd, Pass::bwd}) {
        if (group.dtype == Dtype::e4m3 && pass == Pass::bwd) continue;
        Setup setup = default_setup(kernel, plan.device(), pass);
        setup.config.set_all(config);
        plan.add_judged(setup, Part::shapes,
                        fmt::format("{}/{}/{}/{}", shape.name, config.to_string(),
                                    to_string(group.dtype), to_string(pass)),
                        subject);
      }
    }
  }
}

// Plans sums of as many parts as there are rows, and keys: rounding each of them to a 16-bit type
// would be too far off at the end. The shapes are so short that the oracle compares everything.
void plan_many_tiles(Plan& plan) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    Shape shape = {.name = "many-tiles", .problem = make_problem(512, 256, "none", 8)};
    shape.problem.num_heads_q = 1;
    const auto subject = make_subject(plan, shape, dtype);
    for (const Implementation* kernel : plan.kernels()) {
      const std::string rest = fmt::format("many-tiles/{}", to_string(dtype));
      if (!has_blocks(*kernel)) {
        plan.skip(*kernel, Part::shapes, rest, "has no tiles to choose");
        continue;
      }
      const Setup setup = widest_setup(*kernel, plan.device(), subject->problem());
      plan.add_judged(with_blocks(setup, 1, 64), Part::shapes, rest + "/1x64", subject);
      plan.add_judged(with_blocks(setup, 64, 1), Part::shapes, rest + "/64x1", subject);
    }
  }
}

// Returns why the device cannot hold the tensors of a shape, or "". It counts tensors in and out,
// what a forward leaves, and sums in fp32.
std::string too_large(const Problem& problem, const Device& device) {
  const std::int64_t bytes = (8 * size_bytes(problem.dtype) + size_bytes(Dtype::f32)) *
                             std::max(problem.elements_q(), problem.elements_k());
  if (device.memory_bytes >= static_cast<std::uint64_t>(bytes)) return "";
  return fmt::format("needs {} GiB of the device's memory", bytes >> 30);
}

// Plans tensors of more than 2^31 elements, a fifth of whose slices begin beyond it. So do a fifth
// of the two hundred slices in whose rows the oracle looks.
void plan_beyond_32_bits(Plan& plan) {
  if (plan.device().backend != Backend::cuda) return;
  constexpr std::int64_t kLong = 512, kShort = 64;
  for (const auto& [name, rows, keys] :
       {std::tuple{"rows", kLong, kShort}, std::tuple{"keys", kShort, kLong}}) {
    Shape shape = {.name = fmt::format("beyond-2^31/{}", name),
                   .problem = make_problem(rows, keys, "none", 256),
                   .launches = Launches::by_default,
                   .budget = std::int64_t{1} << 30};
    shape.problem.batch = 160;
    shape.problem.num_heads_q = shape.problem.num_heads_kv = 128;
    const auto subject = make_subject(plan, shape, Dtype::f16);
    const std::string reason = too_large(subject->problem(), plan.device());
    for (const Implementation* kernel : plan.kernels()) {
      if (reason.empty()) {
        add_launches(plan, shape, subject, *kernel);
      } else {
        plan.skip(*kernel, Part::shapes, shape.name, reason);
      }
    }
  }
}

// Plans every instruction set, also those that this processor would not choose.
void plan_every_isa(Plan& plan) {
  if (plan.device().backend != Backend::cpu) return;
  for (const Dtype dtype : kDtypes) {
    Shape shape = {.name = fmt::format("isa/{}", to_string(dtype)),
                   .problem = make_problem(97, 113, "causal", 20)};
    shape.problem.dropout = 0.3;
    const auto subject = make_subject(plan, shape, dtype);
    for (const char* isa : {"avx512", "avx2", "sse4", "sse2", "neon", "portable"}) {
      Device device = plan.device();
      device.isa = isa;
      for (const Implementation* kernel : plan.kernels()) {
        const std::string name = fmt::format("isa/{}/{}", isa, to_string(dtype));
        const Setup here = widest_setup(*kernel, plan.device(), subject->problem());
        if (std::string reason = unsupported(here, subject->problem()); !reason.empty()) {
          plan.skip(*kernel, Part::shapes, name, reason);  // `device` does not exist
          continue;
        }
        plan.add_judged(widest_setup(*kernel, device, subject->problem()), Part::shapes, name,
                        subject);
      }
    }
  }
}

// Adds shapes of e4m3: every kind of scale, several masks, lengths that fill no block of scales,
// packed entries, and inputs that bias sums.
void add_quantised(std::vector<Shape>& shapes) {
  const auto add = [&](const std::string& name, const Problem& problem, const Quantisation& how,
                       InputKind kind = InputKind::normal) {
    shapes.push_back({.name = "e4m3/" + name, .problem = problem, .kind = kind});
    shapes.back().problem.dtype = Dtype::e4m3;
    shapes.back().problem.quantisation = how;
  };
  for (const ScaleOf qk : {ScaleOf::tensor, ScaleOf::head, ScaleOf::block}) {
    for (const ScaleOf v : {ScaleOf::tensor, ScaleOf::head, ScaleOf::block, ScaleOf::channel}) {
      const Problem problem = make_problem(150, 270, "causal", 64);
      add(fmt::format("scales/{}-{}", to_string(qk), to_string(v)), problem, {qk, v, true});
    }
  }
  for (const std::int64_t head_dim : {16, 48, 80, 96, 128, 256}) {
    for (const bool rotate : {false, true}) {
      add(fmt::format("head_dim/{}/rotate-{}", head_dim, rotate ? 1 : 0),
          make_problem(65, 130, "none", head_dim), {ScaleOf::block, ScaleOf::block, rotate});
    }
  }
  for (const char* mask :
       {"causal", "window:40:7", "padding", "padding+causal", "blocks:local:1:64x64"}) {
    add(fmt::format("mask/{}", mask), make_problem(300, 300, mask, 32), {});
  }
  for (const ScaleOf v : {ScaleOf::head, ScaleOf::block, ScaleOf::channel}) {
    add(fmt::format("packed/{}", to_string(v)),
        make_packed({70, 0, 290, 40, 31}, {55, 70, 310, 0, 31}, "causal"),
        {ScaleOf::block, v, true});
  }
  for (const InputKind kind :
       {InputKind::large_logits, InputKind::outlier, InputKind::outlier_channel, InputKind::v_one,
        InputKind::v_mean_one, InputKind::sink}) {
    add(fmt::format("inputs/{}", to_string(kind)), make_problem(65, 400, "none", 64), {}, kind);
  }
  // These are not rotated: a rotation would spread the outliers over all columns.
  Problem outliers = make_problem(1024, 1024, "none", 64);
  outliers.num_heads_q = outliers.num_heads_kv = 4;
  add("inputs/outlier/rotate-0", outliers, {ScaleOf::tensor, ScaleOf::tensor, false},
      InputKind::outlier);
  // Scores are N(0, 9), so a thirtieth of the sum of P is of keys that e4m3 loses unless P is
  // shifted.
  Problem spread = make_problem(65, 2000, "none", 64);
  spread.softmax_scale = 0.375;
  add("small-weights", spread, {}, InputKind::v_mean_one);
  Problem grouped = make_problem(70, 140, "causal", 32);
  grouped.num_heads_q = 6;
  grouped.num_heads_kv = 2;
  add("grouped-heads", grouped, {});
}

void plan_quantised(Plan& plan) {
  std::vector<Shape> shapes;
  add_quantised(shapes);
  for (const Shape& shape : shapes) {
    const auto subject = make_subject(plan, shape, Dtype::e4m3);
    for (const Implementation* kernel : plan.kernels()) {
      if (!kernel->has_e4m3) continue;
      const Setup forward = default_setup(*kernel, plan.device(), Pass::fwd);
      for (const auto& [suffix, setup] : variants(forward, shape.launches)) {
        plan.add_judged(setup, Part::shapes, shape.name + suffix, subject);
      }
    }
  }
}

}  // namespace

void plan_shapes(Plan& plan) {
  std::vector<Shape> shapes;
  add_odd_lengths(shapes);
  add_unequal_lengths(shapes);
  add_block_patterns(shapes);
  add_dropout(shapes);
  add_packed(shapes);
  add_packed_at_borders(shapes);
  add_head_dims(shapes);
  add_heads(shapes);
  add_odd_groups(shapes);
  add_many_entries(shapes);
  add_scales(shapes);
  add_many_items(shapes);
  add_kinds_of_inputs(shapes);
  add_far(shapes);
  for (const Shape& shape : shapes) {
    const std::int64_t longest = std::max(shape.problem.seqlen_q, shape.problem.seqlen_k);
    for (const Dtype dtype : kDtypes) {
      const auto subject = make_subject(plan, shape, dtype);
      for (const Implementation* kernel : plan.kernels()) {
        if (longest <= plan.options().longest) {
          add_launches(plan, shape, subject, *kernel);
        } else {
          plan.skip(*kernel, Part::shapes, fmt::format("{}/{}", shape.name, to_string(dtype)),
                    fmt::format("longer than {}", plan.options().longest));
        }
      }
    }
  }
  plan_every_tile(plan);
  for (const Implementation* kernel : plan.kernels()) {
    if (kernel->configs_to_verify == nullptr) continue;
    for (const ConfigsToVerify& group : kernel->configs_to_verify()) {
      plan_compiled_configs(plan, *kernel, group);
    }
  }
  plan_quantised(plan);
  plan_many_tiles(plan);
  plan_every_isa(plan);
  plan_beyond_32_bits(plan);
}

}  // namespace attnlab::verify
