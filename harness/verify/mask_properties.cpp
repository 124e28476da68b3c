// Checks properties of masks and lengths: prefixes, packed batches, rows that see little or
// nothing, keys that are hidden. Bounds are as in algebraic_properties.cpp; where something must
// not matter at all, there is no bound: the bits stay.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "harness/verify/relation.h"
#include "reference/mask.h"
#include "reference/storage.h"

namespace attnlab::verify {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::string variant(const std::string& what, Dtype dtype) {
  return fmt::format("{}/{}", what, to_string(dtype));
}

Relation::Want constant(double value) {
  return [value](const Place&) { return value; };
}

// Sets rows of dO to 0 where `where` holds for (b, row).
void clear_dout(Inputs& inputs, const std::function<bool(std::int64_t, std::int64_t)>& where) {
  const Values old = read_input(inputs, InputTensor::dout);
  if (old.empty()) return;
  inputs.fill(InputTensor::dout, [&](auto b, auto h, auto row, auto col) {
    return where(b, row) ? 0.0f : old.at(b, h, row, col);
  });
}

// The first rows of a causal problem are the problem of these rows and the keys up to their
// diagonal. With dO = 0 in the other rows, so are dK and dV, and 0 behind the diagonal.
Property causal_prefix(const Scene& scene, Dtype dtype, std::int64_t seqlen_q,
                       std::int64_t seqlen_k, std::int64_t rows) {
  Problem whole = small_problem(dtype, "causal", seqlen_q, seqlen_k);
  whole.dropout = small_dropout(dtype);
  if (whole.is_e4m3()) whole.quantisation.v = ScaleOf::block;
  const std::int64_t keys = rows + seqlen_k - seqlen_q;
  Problem prefix = whole;
  prefix.seqlen_q = rows;
  prefix.seqlen_k = keys;
  const auto only_first = [rows](Inputs& inputs) {
    clear_dout(inputs, [rows](auto /*b*/, auto row) { return row >= rows; });
  };
  return relate(
      "causal-prefix", variant(fmt::format("{}x{}", seqlen_q, seqlen_k), dtype),
      {scene.subject(whole, only_first), scene.subject(prefix)},
      [rows, keys](const std::vector<Run>& runs, const Relation& relation) {
        const Run &all = runs[0], &first = runs[1];
        for (const Output output : {Output::o, Output::lse, Output::dq, Output::dk, Output::dv}) {
          const bool of_keys = output == Output::dk || output == Output::dv;
          const std::int64_t end = of_keys ? keys : rows;
          relation.compare(
              all, output,
              [&](const Place& p) {
                return p.row < end
                           ? static_cast<double>(first.values(output).at(p.b, p.h, p.row, p.col))
                           : 0.0;
              },
              [&](const Place& p) {
                return all.bound(output, p.b, p.h, p.row) +
                       (p.row < end ? first.bound(output, p.b, p.h, p.row) : 0.0);
              },
              [&](const Place& p) { return of_keys || p.row < end; });
        }
      });
}

// Every entry of a packed batch is a dense problem of its lengths, at the same place in the batch,
// so that dropout is the same.
Property packed_is_dense(const Scene& scene, Dtype dtype, const std::string& mask) {
  Problem packed = small_problem(dtype, mask);
  packed.batch = 5;
  packed.dropout = small_dropout(dtype);
  packed.layout = Layout::packed;
  packed.lengths = {.kind = LengthsKind::packed,
                    .given = true,
                    .queries = {30, 1, 45, 0, 17},
                    .keys = {25, 53, 49, 31, 0}};
  if (packed.is_e4m3()) {  // some entries have two blocks of scales
    packed.seqlen_q = 145;
    packed.seqlen_k = 153;
    packed.lengths.queries = {130, 1, 145, 0, 17};
    packed.lengths.keys = {125, 153, 149, 131, 0};
    packed.quantisation.v = mask == "none" ? ScaleOf::channel : ScaleOf::block;
  }
  std::vector<std::shared_ptr<Subject>> subjects = {scene.subject(packed)};
  std::vector<std::int64_t> entries;
  for (std::int64_t b = 0; b < packed.batch; ++b) {
    if (packed.queries(b) == 0 || packed.keys(b) == 0) continue;
    Problem dense = packed;
    dense.layout = Layout::bshd;
    dense.lengths = {};
    dense.seqlen_q = packed.queries(b);
    dense.seqlen_k = packed.keys(b);
    subjects.push_back(scene.subject(dense));
    entries.push_back(b);
  }
  return relate(
      "packed-is-a-loop-of-dense", variant(mask, dtype), subjects,
      [entries](const std::vector<Run>& runs, const Relation& relation) {
        const Run& all = runs[0];
        for (const Output output : {Output::o, Output::lse, Output::dq, Output::dk, Output::dv}) {
          for (std::int64_t b = 0; b < all.problem.batch; ++b) {
            const auto found = std::ranges::find(entries, b);
            const auto is_entry = [b](const Place& p) { return p.b == b; };
            if (found == entries.end()) {  // no keys, or no rows
              relation.same(all, output, constant(output == Output::lse ? -kInfinite : 0.0),
                            is_entry);
              continue;
            }
            const Run& dense = runs[static_cast<std::size_t>(found - entries.begin()) + 1];
            relation.compare(
                all, output,
                [&](const Place& p) {
                  return static_cast<double>(dense.values(output).at(p.b, p.h, p.row, p.col));
                },
                [&](const Place& p) {
                  return all.bound(output, p.b, p.h, p.row) + dense.bound(output, p.b, p.h, p.row);
                },
                is_entry);
          }
        }
      });
}

// Says which rows see a key, and which keys are seen, by the oracle's masks.
struct Reach {
  explicit Reach(const Problem& problem) {
    const reference::Visibility visibility(problem);
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      const std::int64_t all_rows = reference::rows_in_memory(problem, b);
      const std::int64_t all_keys = reference::keys_in_memory(problem, b);
      auto& row_sees = sees.emplace_back(static_cast<std::size_t>(all_rows), false);
      auto& key_seen = seen.emplace_back(static_cast<std::size_t>(all_keys), false);
      for (std::int64_t r = 0; r < all_rows; ++r) {
        for (std::int64_t c = 0; c < all_keys; ++c) {
          if (!visibility.sees(b, r, c)) continue;
          row_sees[static_cast<std::size_t>(r)] = true;
          key_seen[static_cast<std::size_t>(c)] = true;
        }
      }
    }
  }
  bool row(const Place& p) const {
    return sees[static_cast<std::size_t>(p.b)][static_cast<std::size_t>(p.row)];
  }
  bool key(const Place& p) const {
    return seen[static_cast<std::size_t>(p.b)][static_cast<std::size_t>(p.row)];
  }
  std::vector<std::vector<bool>> sees, seen;
};

// The mean of ones is 1, whatever the weights; and with dP the same for all keys of a row, dS is 0.
Property values_of_one(const Scene& scene, Dtype dtype, const std::string& mask) {
  const Problem problem = small_problem(dtype, mask, 53, 53);
  const auto ones = [](Inputs& inputs) {
    inputs.fill(InputTensor::v, [&](auto b, auto /*h*/, auto row, auto /*col*/) {
      return row < inputs.problem().keys(b) ? 1.0f : 1e4f;
    });
  };
  return relate("v-of-ones", variant(mask, dtype), {scene.subject(problem, ones)},
                [](const std::vector<Run>& runs, const Relation& relation) {
                  const Run& run = runs[0];
                  const Reach reach(run.problem);
                  const auto bound = [&](Output output) {
                    return constant(run.bound(output, 0, 0, 0));
                  };
                  relation.compare(
                      run, Output::o, [&](const Place& p) { return reach.row(p) ? 1.0 : 0.0; },
                      bound(Output::o));
                  relation.compare(run, Output::dq, constant(0.0), bound(Output::dq));
                  relation.compare(run, Output::dk, constant(0.0), bound(Output::dk));
                });
}

// Rows that see nothing must have exactly 0, and -inf in lse; unseen keys have gradients of 0.
Property nothing_visible(const Scene& scene, Dtype dtype, const std::string& name,
                         const Problem& problem) {
  const auto subject = scene.subject(problem);
  Property property{.name = "nothing-visible", .variant = variant(name, dtype)};
  property.subjects = {subject};
  property.check = [subject](const Setup& setup, const Relation& relation) {
    const Run result = run(*subject, setup, Bounds::none);
    const Reach reach(result.problem);
    const auto sees_nothing = [&](const Place& p) { return !reach.row(p); };
    relation.same(result, Output::o, constant(0.0), sees_nothing);
    relation.same(result, Output::lse, constant(-kInfinite), sees_nothing);
    relation.same(result, Output::dq, constant(0.0), sees_nothing);
    for (const Output output : {Output::dk, Output::dv}) {
      relation.same(result, output, constant(0.0), [&](const Place& p) { return !reach.key(p); });
    }
  };
  return property;
}

using IsChanged = std::function<bool(std::int64_t b, std::int64_t key)>;

// Compares two launches that differ in the K and V of some keys. Rows that see none of them keep
// every bit of o, lse and dq; with dO = 0 in the rows that do, so do dk and dv of all other keys.
Property hidden_keys(const Scene& scene, Dtype dtype, const std::string& name,
                     const Problem& problem, const IsChanged& is_changed) {
  const reference::Visibility visibility(problem);
  std::vector<std::vector<bool>> sees_changed;
  bool nobody_sees = true;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    auto& rows = sees_changed.emplace_back();
    for (std::int64_t r = 0; r < reference::rows_in_memory(problem, b); ++r) {
      bool any = false;
      for (std::int64_t c = 0; c < reference::keys_in_memory(problem, b); ++c) {
        any = any || (is_changed(b, c) && visibility.sees(b, r, c));
      }
      rows.push_back(any);
      nobody_sees = nobody_sees && !any;
    }
  }
  const auto sees = [sees_changed](std::int64_t b, std::int64_t row) -> bool {
    return sees_changed[static_cast<std::size_t>(b)][static_cast<std::size_t>(row)];
  };
  const auto quiet = [sees](Inputs& inputs) { clear_dout(inputs, sees); };
  // The values are as large as every type can stand: scores that are seen must stay finite in f16.
  const float size = nobody_sees ? 3e4f : 60.0f;
  const auto changed = [sees, is_changed, size](Inputs& inputs) {
    clear_dout(inputs, sees);
    for (const InputTensor tensor : {InputTensor::k, InputTensor::v}) {
      const Values old = read_input(inputs, tensor);
      inputs.fill(tensor, [&](auto b, auto h, auto row, auto col) {
        return is_changed(b, row) ? ((row + col) % 3 == 0 ? size : -size) : old.at(b, h, row, col);
      });
    }
  };
  const auto before = scene.subject(problem, quiet), after = scene.subject(problem, changed);
  Property property{.name = "hidden-keys", .variant = variant(name, dtype)};
  property.subjects = {before, after};
  property.check = [before, after, sees, is_changed](const Setup& setup, const Relation& relation) {
    // Where sums of dQ have no fixed order, they differ by as much as rounding lets them.
    const bool is_fixed = has_fixed_order(setup);
    const Bounds bounds = is_fixed ? Bounds::none : Bounds::of_the_rule;
    const Run one = run(*before, setup, bounds), two = run(*after, setup, Bounds::none);
    for (const Output output : {Output::o, Output::lse, Output::dq, Output::dk, Output::dv}) {
      const bool of_keys = output == Output::dk || output == Output::dv;
      const double bound = output == Output::dq && !is_fixed ? one.bound_dq : 0.0;
      relation.compare(
          two, output,
          [&](const Place& p) {
            return static_cast<double>(one.values(output).at(p.b, p.h, p.row, p.col));
          },
          [&](const Place&) { return bound; },
          [&](const Place& p) { return of_keys ? !is_changed(p.b, p.row) : !sees(p.b, p.row); });
    }
  };
  return property;
}

Problem packed_problem(Dtype dtype, const std::string& mask) {
  Problem packed = small_problem(dtype, mask);
  packed.batch = 4;
  packed.layout = Layout::packed;
  packed.lengths = {.kind = LengthsKind::packed,
                    .given = true,
                    .queries = {30, 45, 0, 20},
                    .keys = {25, 53, 31, 40}};
  return packed;
}

std::vector<Property> causal_prefixes(const Scene& scene, Dtype dtype) {
  if (dtype == Dtype::e4m3) {
    return {causal_prefix(scene, dtype, 200, 200, 128), causal_prefix(scene, dtype, 200, 328, 128),
            causal_prefix(scene, dtype, 328, 200, 256)};
  }
  return {causal_prefix(scene, dtype, 53, 53, 30), causal_prefix(scene, dtype, 45, 53, 20),
          causal_prefix(scene, dtype, 53, 45, 30)};
}

// Changes keys of a part of a problem that some rows, or all, do not see.
std::vector<Property> hidden_parts(const Scene& scene, Dtype dtype) {
  if (dtype != Dtype::e4m3) {
    return {
        hidden_keys(scene, dtype, "causal-tail", small_problem(dtype, "causal"),
                    [](auto /*b*/, auto key) { return key >= 40; }),
        hidden_keys(scene, dtype, "before-the-window", small_problem(dtype, "window:5:3", 20, 53),
                    [](auto /*b*/, auto key) { return key < 28; }),
        hidden_keys(scene, dtype, "empty-blocks",
                    small_problem(dtype, "blocks:local:0:16x16", 53, 53),
                    [](auto /*b*/, auto key) { return key >= 16 && key < 32; })};
  }
  // Keys share their scale with those of their block.
  const auto make = [dtype](const char* mask, std::int64_t seqlen_q, std::int64_t seqlen_k) {
    Problem problem = small_problem(dtype, mask, seqlen_q, seqlen_k);
    problem.quantisation.v = ScaleOf::block;
    return problem;
  };
  return {hidden_keys(scene, dtype, "causal-tail", make("causal", 200, 200),
                      [](auto /*b*/, auto key) { return key >= 128; }),
          hidden_keys(scene, dtype, "before-the-window", make("window:5:3", 20, 200),
                      [](auto /*b*/, auto key) { return key < 128; }),
          hidden_keys(scene, dtype, "empty-blocks", make("blocks:local:0:128x128", 300, 300),
                      [](auto /*b*/, auto key) { return key >= 128 && key < 256; })};
}

}  // namespace

std::vector<Property> mask_properties(const Scene& scene, Dtype dtype) {
  std::vector<Property> all = causal_prefixes(scene, dtype);
  for (const char* mask : {"none", "causal", "window:20:5"}) {
    all.push_back(packed_is_dense(scene, dtype, mask));
  }
  for (const char* mask : {"none", "causal", "padding", "window:9:3", "blocks:butterfly:16x8"}) {
    all.push_back(values_of_one(scene, dtype, mask));
  }

  Problem no_keys = small_problem(dtype, "padding+causal");
  no_keys.lengths.keys = {0, 20};
  Problem no_packed_keys = packed_problem(dtype, "none");
  no_packed_keys.lengths.keys = {25, 0, 53, 0};
  all.push_back(nothing_visible(scene, dtype, "causal", small_problem(dtype, "causal", 53, 30)));
  all.push_back(nothing_visible(scene, dtype, "padding", no_keys));
  all.push_back(nothing_visible(scene, dtype, "packed", no_packed_keys));
  all.push_back(
      nothing_visible(scene, dtype, "window", small_problem(dtype, "window:4:0", 53, 20)));
  Problem few_blocks = small_problem(dtype, "padding+blocks:local:0:16x16", 53, 53);
  few_blocks.lengths.keys = {40, 17};
  all.push_back(nothing_visible(scene, dtype, "blocks", few_blocks));

  const Problem padding = small_problem(dtype, "padding");
  all.push_back(hidden_keys(scene, dtype, "padding", padding,
                            [padding](auto b, auto key) { return key >= padding.keys(b); }));
  all.push_back(hidden_keys(scene, dtype, "packed-neighbour", packed_problem(dtype, "causal"),
                            [](auto b, auto /*key*/) { return b == 1; }));
  all.push_back(hidden_keys(scene, dtype, "packed-without-rows", packed_problem(dtype, "none"),
                            [](auto b, auto /*key*/) { return b == 2; }));
  std::ranges::move(hidden_parts(scene, dtype), std::back_inserter(all));
  return all;
}

}  // namespace attnlab::verify
