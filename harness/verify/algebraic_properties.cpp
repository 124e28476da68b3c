// Checks properties of the formula. Two launches stand in a relation that holds exactly for exact
// outputs; the kernel's outputs are each within the tolerance rule's bound of them, so the relation
// holds up to the sum of the bounds. No number of the oracle's is compared.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/verify/relation.h"
#include "reference/storage.h"

namespace attnlab::verify {

namespace {

constexpr Output kOutputs[] = {Output::o, Output::lse, Output::dq, Output::dk, Output::dv};

std::string variant(const std::string& what, Dtype dtype) {
  return fmt::format("{}/{}", what, to_string(dtype));
}

// Wants the value of another run, at the same place.
Relation::Want value_of(const Run& run, Output output) {
  return [&run, output](const Place& p) {
    return static_cast<double>(run.values(output).at(p.b, p.h, p.row, p.col));
  };
}

// Adds up the runs' bounds, which all have the same places.
Relation::Want bounds_of(std::vector<const Run*> runs, Output output) {
  return [runs = std::move(runs), output](const Place& p) {
    double sum = 0.0;
    for (const Run* run : runs) sum += run->bound(output, p.b, p.h, p.row);
    return sum;
  };
}

// Rounds to multiples of 1/16 up to 2: a sum of two of them is exact in every type.
float coarse(float value) { return std::clamp(std::round(value * 16.0f) / 16.0f, -2.0f, 2.0f); }

void make_coarse(Inputs& inputs, InputTensor tensor) {
  const Values old = read_input(inputs, tensor);
  if (old.empty()) return;
  inputs.fill(tensor,
              [&](auto b, auto h, auto row, auto col) { return coarse(old.at(b, h, row, col)); });
}

// Softmax and its sums know no order of the keys.
Property permuted_keys(const Scene& scene, const Problem& problem) {
  // The keys are reversed and rotated by a third; hidden keys stay.
  const auto moved = [problem](std::int64_t b, std::int64_t key) {
    const std::int64_t keys = problem.keys(b);
    return key < keys ? (keys - 1 - key + keys / 3) % keys : key;
  };
  const auto permute = [moved](Inputs& inputs) {
    for (const InputTensor tensor : {InputTensor::k, InputTensor::v}) {
      const Values old = read_input(inputs, tensor);
      inputs.fill(tensor, [&](auto b, auto h, auto row, auto col) {
        return old.at(b, h, moved(b, row), col);
      });
    }
  };
  return relate("permuted-keys", variant(to_string(problem.mask), problem.dtype),
                {scene.subject(problem), scene.subject(problem, permute)},
                [moved](const std::vector<Run>& runs, const Relation& relation) {
                  const Run &plain = runs[0], &permuted = runs[1];
                  for (const Output output : kOutputs) {
                    const bool of_keys = output == Output::dk || output == Output::dv;
                    relation.compare(
                        permuted, output,
                        [&](const Place& p) {
                          const std::int64_t row = of_keys ? moved(p.b, p.row) : p.row;
                          return static_cast<double>(plain.values(output).at(p.b, p.h, row, p.col));
                        },
                        bounds_of({&plain, &permuted}, output));
                  }
                });
}

// Outputs that are linear in `tensor` add up over two tensors and their sum; outputs that do not
// depend on it stay.
Property linear(const Scene& scene, Dtype dtype, InputTensor tensor) {
  Problem problem = small_problem(dtype, "causal");
  problem.dropout = 0.2;
  enum class Which { first, second, sum };
  const auto edit = [tensor](Which which) {
    return [tensor, which](Inputs& inputs) {
      const Values drawn = read_input(inputs, tensor);
      if (drawn.empty()) return;
      const Problem& p = inputs.problem();
      const std::int64_t rows = tensor == InputTensor::v ? p.seqlen_k : p.seqlen_q;
      inputs.fill(tensor, [&](auto b, auto h, auto row, auto col) {
        const float first = coarse(drawn.at(b, h, row, col));
        const float second = coarse(drawn.at(b, h, rows - 1 - row, col));
        if (which == Which::sum) return first + second;
        return which == Which::first ? first : second;
      });
    };
  };
  const bool of_v = tensor == InputTensor::v;
  Property property = relate(
      of_v ? "linear-in-v" : "linear-in-dout", variant("causal", dtype),
      {scene.subject(problem, edit(Which::first)), scene.subject(problem, edit(Which::second)),
       scene.subject(problem, edit(Which::sum))},
      [of_v](const std::vector<Run>& runs, const Relation& relation) {
        const Run &first = runs[0], &second = runs[1], &sum = runs[2];
        for (const Output output : kOutputs) {
          const bool constant = of_v ? output == Output::lse || output == Output::dv
                                     : output == Output::lse || output == Output::o;
          const auto want_first = value_of(first, output), want_second = value_of(second, output);
          relation.compare(
              sum, output,
              [&](const Place& p) {
                return constant ? want_first(p) : want_first(p) + want_second(p);
              },
              constant ? bounds_of({&first, &sum}, output)
                       : bounds_of({&first, &second, &sum}, output));
        }
      });
  // A forward alone does not depend on dO, so there is nothing to check.
  if (!of_v) property.without = Property::Without::skipped;
  return property;
}

// A vector added to every key adds one number to all scores of a row: the softmax forgets it, lse
// moves by it; dQ = scale * dS K does not move, for the rows of dS add up to 0.
Property shifted_keys(const Scene& scene, Dtype dtype, const std::string& mask) {
  Problem problem = small_problem(dtype, mask);
  problem.dropout = 0.2;
  const auto shift = [](std::int64_t h, std::int64_t col) {
    return static_cast<float>((5 * h + 3 * col) % 17 - 8) / 16.0f;
  };
  const auto plain = [](Inputs& inputs) { make_coarse(inputs, InputTensor::k); };
  const auto shifted = [shift](Inputs& inputs) {
    make_coarse(inputs, InputTensor::k);
    const Values old = read_input(inputs, InputTensor::k);
    inputs.fill(InputTensor::k, [&](auto b, auto h, auto row, auto col) {
      const bool hidden = row >= inputs.problem().keys(b);
      return old.at(b, h, row, col) + (hidden ? 0.0f : shift(h, col));
    });
  };
  return relate("shifted-keys", variant(mask, dtype),
                {scene.subject(problem, plain), scene.subject(problem, shifted)},
                [shift](const std::vector<Run>& runs, const Relation& relation) {
                  const Run &before = runs[0], &after = runs[1];
                  for (const Output output : kOutputs) {
                    const auto want = value_of(before, output);
                    relation.compare(
                        after, output,
                        [&](const Place& p) {
                          double moved = 0.0;
                          for (std::int64_t x = 0;
                               output == Output::lse && x < before.problem.head_dim; ++x) {
                            const std::int64_t head = reference::kv_head(before.problem, p.h);
                            moved += static_cast<double>(before.q.at(p.b, p.h, p.row, x)) *
                                     static_cast<double>(shift(head, x));
                          }
                          return want(p) + before.problem.scale() * moved;
                        },
                        bounds_of({&before, &after}, output));
                  }
                });
}

// Compares shared K/V heads with heads of their own that have the same contents; dK and dV of a
// shared head are the sums over those who share it.
Property repeated_heads(const Scene& scene, Dtype dtype, std::int64_t heads_kv) {
  Problem shared = small_problem(dtype, "causal");
  shared.num_heads_kv = heads_kv;
  shared.dropout = small_dropout(dtype);
  // Signs of a rotation are those of a K/V head, so heads of their own would have other codes.
  if (shared.is_e4m3()) shared.quantisation.rotate = false;
  Problem repeated = shared;
  repeated.num_heads_kv = repeated.num_heads_q;
  const std::int64_t sharing = shared.num_heads_q / heads_kv;
  // A head's numbers depend on its own number, so head h of the shared ones has those of head h.
  const auto repeat = [sharing](Inputs& inputs) {
    for (const InputTensor tensor : {InputTensor::k, InputTensor::v}) {
      const Values old = read_input(inputs, tensor);
      inputs.fill(tensor, [&](auto b, auto h, auto row, auto col) {
        return old.at(b, h / sharing, row, col);
      });
    }
  };
  return relate(
      "gqa-is-repeated-kv", variant(fmt::format("4x{}", heads_kv), dtype),
      {scene.subject(shared), scene.subject(repeated, repeat)},
      [sharing](const std::vector<Run>& runs, const Relation& relation) {
        const Run &grouped = runs[0], &apart = runs[1];
        for (const Output output : {Output::o, Output::lse, Output::dq}) {
          relation.compare(grouped, output, value_of(apart, output),
                           bounds_of({&grouped, &apart}, output));
        }
        for (const Output output : {Output::dk, Output::dv}) {
          const double bound = grouped.bound(output, 0, 0, 0) +
                               static_cast<double>(sharing) * apart.bound(output, 0, 0, 0);
          relation.compare(
              grouped, output,
              [&](const Place& p) {
                double sum = 0.0;
                for (std::int64_t h = p.h * sharing; h < (p.h + 1) * sharing; ++h) {
                  sum += static_cast<double>(apart.values(output).at(p.b, h, p.row, p.col));
                }
                return sum;
              },
              [bound](const Place&) { return bound; });
        }
      });
}

// Two parts of the keys have a softmax of their own, and are merged by their lse:
//   O = w O1 + (1 - w) O2,  w = 1 / (1 + exp(lse2 - lse1)),
// whose error is that of O1 and O2, weighted, and w (1 - w) |O1 - O2| times that of lse2 - lse1.
Property merged_splits(const Scene& scene, const Problem& whole, std::int64_t first_keys) {
  Problem first = whole, second = whole;
  first.seqlen_k = first_keys;
  second.seqlen_k = whole.seqlen_k - first_keys;
  const auto all = scene.subject(whole);
  const auto take_second = [all, first_keys](Inputs& inputs) {
    for (const InputTensor tensor : {InputTensor::k, InputTensor::v}) {
      const Values values = read_input(all->inputs(), tensor);
      inputs.fill(tensor, [&](auto b, auto h, auto row, auto col) {
        return values.at(b, h, row + first_keys, col);
      });
    }
  };
  Property property = relate(
      "merged-splits", variant(fmt::format("{}-of-{}", first_keys, whole.seqlen_k), whole.dtype),
      {all, scene.subject(first), scene.subject(second, take_second)},
      [](const std::vector<Run>& runs, const Relation& relation) {
        const Run &both = runs[0], &one = runs[1], &two = runs[2];
        const auto lse = [](const Run& run, const Place& p) {
          return static_cast<double>(run.lse.at(p.b, p.h, p.row, 0));
        };
        const auto share = [&](const Place& p) {
          return 1.0 / (1.0 + std::exp(lse(two, p) - lse(one, p)));
        };
        const auto element = [](const Run& run, const Place& p) {
          return static_cast<double>(run.o.at(p.b, p.h, p.row, p.col));
        };
        const auto bound = [](const Run& run, Output output, const Place& p) {
          return run.bound(output, p.b, p.h, p.row);
        };
        relation.compare(
            both, Output::lse, [&](const Place& p) { return lse(one, p) - std::log(share(p)); },
            [&](const Place& p) {
              return bound(both, Output::lse, p) + share(p) * bound(one, Output::lse, p) +
                     (1.0 - share(p)) * bound(two, Output::lse, p);
            });
        relation.compare(
            both, Output::o,
            [&](const Place& p) {
              return share(p) * element(one, p) + (1.0 - share(p)) * element(two, p);
            },
            [&](const Place& p) {
              const double w = share(p);
              const double lse_error = bound(one, Output::lse, p) + bound(two, Output::lse, p);
              return both.bound_o + w * one.bound_o + (1.0 - w) * two.bound_o +
                     w * (1.0 - w) * lse_error * std::abs(element(one, p) - element(two, p));
            });
      });
  property.pass = Pass::fwd;
  property.needs_lse = true;
  return property;
}

// Scales of e4m3 take up powers of two: of V times 8, Q times 2 and K by 16, under a softmax_scale
// of 8 times as much, the codes are the same. So are the bits of lse, and those of O times 8, but
// for what rounds to subnormal numbers of f16.
Property powers_of_two(const Scene& scene, const Quantisation& quantisation) {
  constexpr double kHalfStep = 0x1p-25;
  Problem plain = small_problem(Dtype::e4m3, "causal", 140, 200);
  plain.quantisation = quantisation;
  Problem scaled = plain;
  scaled.softmax_scale = 8.0 * plain.scale();
  const auto scale = [](Inputs& inputs) {
    for (const auto& [tensor, factor] :
         {std::pair{InputTensor::q, 2.0f}, {InputTensor::k, 0.0625f}, {InputTensor::v, 8.0f}}) {
      const Values old = read_input(inputs, tensor);
      inputs.fill(tensor, [&, by = factor](auto b, auto h, auto row, auto col) {
        return by * old.at(b, h, row, col);
      });
    }
  };
  const std::string scales =
      fmt::format("{}-{}", to_string(quantisation.qk), to_string(quantisation.v));
  return relate("powers-of-two", variant(scales, plain.dtype),
                {scene.subject(plain), scene.subject(scaled, scale)},
                [](const std::vector<Run>& runs, const Relation& relation) {
                  const Run &before = runs[0], &after = runs[1];
                  relation.same(after, Output::lse, value_of(before, Output::lse));
                  const auto o = value_of(before, Output::o);
                  relation.compare(
                      after, Output::o, [&](const Place& p) { return 8.0 * o(p); },
                      [](const Place&) { return 9.0 * kHalfStep; });
                });
}

// A sum of two codes is no code, and a vector added to all keys changes theirs: so e4m3 is not
// linear in V, and feels a shift of keys.
std::vector<Property> quantised_properties(const Scene& scene) {
  // Scales of a head or of the tensor do not know where in it a key stands.
  Problem permuted = small_problem(Dtype::e4m3, "none", 45, 200);
  permuted.quantisation = {.qk = ScaleOf::head, .v = ScaleOf::channel};
  Problem padded = small_problem(Dtype::e4m3, "padding", 45, 200);
  padded.quantisation = {.qk = ScaleOf::tensor, .v = ScaleOf::head};
  Problem split = small_problem(Dtype::e4m3, "none", 45, 300);
  split.quantisation = {.qk = ScaleOf::block, .v = ScaleOf::block};
  return {permuted_keys(scene, permuted),
          permuted_keys(scene, padded),
          repeated_heads(scene, Dtype::e4m3, 2),
          repeated_heads(scene, Dtype::e4m3, 1),
          merged_splits(scene, split, 128),
          merged_splits(scene, split, 256),
          powers_of_two(scene, {.qk = ScaleOf::tensor, .v = ScaleOf::head}),
          powers_of_two(scene, {.qk = ScaleOf::head, .v = ScaleOf::channel, .rotate = false}),
          powers_of_two(scene, {.qk = ScaleOf::block, .v = ScaleOf::block})};
}

}  // namespace

std::vector<Property> algebraic_properties(const Scene& scene, Dtype dtype) {
  if (dtype == Dtype::e4m3) return quantised_properties(scene);
  const Problem whole = small_problem(dtype, "none");
  return {
      permuted_keys(scene, whole),          permuted_keys(scene, small_problem(dtype, "padding")),
      linear(scene, dtype, InputTensor::v), linear(scene, dtype, InputTensor::dout),
      shifted_keys(scene, dtype, "none"),   shifted_keys(scene, dtype, "padding+causal"),
      repeated_heads(scene, dtype, 2),      repeated_heads(scene, dtype, 1),
      merged_splits(scene, whole, 5),       merged_splits(scene, whole, 30)};
}

}  // namespace attnlab::verify
