// Compares dropout's mask, read out of a kernel's outputs, bit by bit with the oracle's generator.
//
// With Q = 0 all visible keys of a row have the same probability P, which makes three products show
// the mask Z itself:
//   forward   V = I:           O[r, c] = P Z[r, c]: kept where it is above 0
//   dV        dO = 4^i I for head i of those that share a K/V head:
//                              dV[c, r] = P keep_scale sum_i 4^i Z_i[r, c]: digits to base 4
//   dS        K = I, V and dO the first unit vector in all rows, so that dP = 1:
//                              dQ[r, c] = scale P (Z[r, c] keep_scale - delta), delta = O[r, 0]
// All are decided in the middle between kept and dropped, far from any rounding.
#include <fmt/format.h>

#include <cmath>

#include "harness/verify/relation.h"
#include "reference/dropout.h"
#include "reference/mask.h"
#include "reference/storage.h"

namespace attnlab::verify {

namespace {

constexpr std::int64_t kSeqlenQ = 113, kSeqlenK = 127, kHeadDim = 128;
constexpr std::int64_t kSharing = 2;  // query heads of a K/V head

Problem dropout_problem(Dtype dtype, const std::string& mask, double dropout) {
  Problem problem = {.dtype = dtype,
                     .batch = 2,
                     .num_heads_q = 2 * kSharing,
                     .num_heads_kv = 2,
                     .seqlen_q = kSeqlenQ,
                     .seqlen_k = kSeqlenK,
                     .head_dim = kHeadDim,
                     .mask = parse_mask(mask),
                     .dropout = dropout};
  return problem;
}

float unit(std::int64_t row, std::int64_t col) { return row == col ? 1.0f : 0.0f; }

// Shows Z in O and dV.
void show_in_o_and_dv(Inputs& inputs) {
  inputs.fill(InputTensor::q, [](auto...) { return 0.0f; });
  inputs.fill(InputTensor::v, [](auto, auto, auto row, auto col) { return unit(row, col); });
  inputs.fill(InputTensor::dout, [](auto, auto h, auto row, auto col) {
    return (h % kSharing == 0 ? 1.0f : 4.0f) * unit(row, col);
  });
}

// Shows Z in dS, and so in dQ.
void show_in_dq(Inputs& inputs) {
  inputs.fill(InputTensor::q, [](auto...) { return 0.0f; });
  inputs.fill(InputTensor::k, [](auto, auto, auto row, auto col) { return unit(row, col); });
  const auto first = [](auto, auto, auto, auto col) { return col == 0 ? 1.0f : 0.0f; };
  inputs.fill(InputTensor::v, first);
  inputs.fill(InputTensor::dout, first);
}

class MaskOfKernel {
 public:
  // Takes the run on the first kind of inputs, and with a backward also that on the second.
  MaskOfKernel(Run o_and_dv, const Run* dq) : shown_(std::move(o_and_dv)), dq_(dq) {}

  bool in_o(const Place& p) const { return shown_.o.at(p.b, p.h, p.row, p.col) > 0.0f; }

  bool in_dv(const Place& p, double probability, double keep_scale) const {
    const double digits = static_cast<double>(shown_.dv.at(p.b, p.h / kSharing, p.col, p.row)) /
                          (probability * keep_scale);
    const bool second = digits > 2.5;
    return p.h % kSharing == 1 ? second : digits - (second ? 4.0 : 0.0) > 0.5;
  }

  bool in_ds(const Place& p, double probability, double keep_scale) const {
    const double delta = static_cast<double>(dq_->o.at(p.b, p.h, p.row, 0));
    const double ds = static_cast<double>(dq_->dq.at(p.b, p.h, p.row, p.col)) /
                      (probability * dq_->problem.scale());
    return ds + delta > 0.5 * keep_scale;
  }

  const Run& shown() const { return shown_; }

 private:
  Run shown_;
  const Run* dq_;
};

// Compares all elements; returns how many are kept, of how many.
struct Kept {
  double kept = 0.0, all = 0.0;
};

Kept compare_masks(const MaskOfKernel& mask, bool has_backward, const Relation& relation) {
  const Problem& problem = mask.shown().problem;
  const reference::Visibility visibility(problem);
  const double keep_scale = reference::dropout_keep_scale(problem);
  Kept count;
  for (Place p; p.b < problem.batch; ++p.b) {
    for (p.h = 0; p.h < problem.num_heads_q; ++p.h) {
      for (p.row = 0; p.row < problem.seqlen_q; ++p.row) {
        double visible = 0.0;
        for (std::int64_t c = 0; c < problem.seqlen_k; ++c) {
          visible += visibility.sees(p.b, p.row, c) ? 1.0 : 0.0;
        }
        for (p.col = 0; p.col < problem.seqlen_k; ++p.col) {
          if (!visibility.sees(p.b, p.row, p.col)) continue;
          const bool want = reference::element_is_kept(problem, p.b, p.h, p.row, p.col);
          const auto expect = [&](const char* where, bool got) {
            if (got == want) return;
            relation.fail(
                mask.shown(),
                fmt::format("batch {} head {} row {} key {}: {} in {}, want {}", p.b, p.h, p.row,
                            p.col, got ? "kept" : "dropped", where, want ? "kept" : "dropped"));
          };
          const bool kept = mask.in_o(p);
          expect("the forward", kept);
          count.all += 1.0;
          count.kept += kept ? 1.0 : 0.0;
          if (!has_backward) continue;
          expect("dV", mask.in_dv(p, 1.0 / visible, keep_scale));
          expect("dS", mask.in_ds(p, 1.0 / visible, keep_scale));
        }
      }
    }
  }
  return count;
}

using Tiles = std::pair<std::int64_t, std::int64_t>;
constexpr Tiles kDefaultTiles = {0, 0};

// Checks the mask, in forward and backward, with tiles of one size.
Property dropout_mask(const Scene& scene, const std::string& variant, const Problem& problem,
                      Tiles tiles) {
  const auto first = scene.subject(problem, show_in_o_and_dv);
  const auto second = scene.subject(problem, show_in_dq);
  Property property{.name = "dropout-mask", .variant = variant};
  property.subjects = {first, second};
  property.tiles = tiles;
  property.check = [first, second](const Setup& setup, const Relation& relation) {
    const Run in_dq = run(*second, setup, Bounds::none);
    const MaskOfKernel mask(run(*first, setup, Bounds::none), &in_dq);
    compare_masks(mask, in_dq.has_backward(), relation);
  };
  return property;
}

// Checks that the share of kept elements is 1 - T / 65536 within four standard deviations of as
// many independent draws. (A right generator fails this for one seed in 16000.)
Property keep_rate(const Scene& scene, const std::string& variant, const Problem& problem) {
  const auto subject = scene.subject(problem, show_in_o_and_dv);
  Property property{.name = "dropout-keep-rate", .variant = variant};
  property.subjects = {subject};
  property.pass = Pass::fwd;
  property.check = [subject](const Setup& setup, const Relation& relation) {
    const Run shown = run(*subject, setup, Bounds::none);
    const Problem& p = shown.problem;
    const double all = static_cast<double>(p.batch * p.num_heads_q * p.seqlen_q * p.seqlen_k);
    double kept = 0.0;
    for (Place at; at.b < p.batch; ++at.b) {
      for (at.h = 0; at.h < p.num_heads_q; ++at.h) {
        for (at.row = 0; at.row < p.seqlen_q; ++at.row) {
          for (at.col = 0; at.col < p.seqlen_k; ++at.col) {
            kept += shown.o.at(at.b, at.h, at.row, at.col) > 0.0f ? 1.0 : 0.0;
          }
        }
      }
    }
    const double want = 1.0 - reference::dropout_threshold(p) / 65536.0;
    const double bound = 4.0 * std::sqrt(want * (1.0 - want) / all);
    if (!(std::abs(kept / all - want) <= bound)) {
      relation.fail(shown, fmt::format("keeps {} of {} elements: a share of {:.6f}, want {:.6f} "
                                       "within {:.6f}",
                                       kept, all, kept / all, want, bound));
    }
  };
  return property;
}

}  // namespace

std::vector<Property> dropout_properties(const Scene& scene, Dtype dtype) {
  std::vector<Property> all;
  const std::string type = to_string(dtype);
  for (const double dropout : {0.1, 0.9}) {
    const Problem plain = dropout_problem(dtype, "none", dropout);
    all.push_back(keep_rate(scene, fmt::format("{}/{}", dropout, type), plain));
    all.push_back(
        dropout_mask(scene, fmt::format("{}/none/{}", dropout, type), plain, kDefaultTiles));
    all.push_back(dropout_mask(scene, fmt::format("{}/causal/{}", dropout, type),
                               dropout_problem(dtype, "causal", dropout), kDefaultTiles));
  }
  if (dtype != Dtype::f32) return all;
  const Problem problem = dropout_problem(dtype, "none", 0.3);
  for (const std::int64_t block_m : {1, 16, 30, 64, 128, 200}) {
    for (const std::int64_t block_n : {1, 16, 50, 64, 128, 256}) {
      all.push_back(dropout_mask(scene, fmt::format("0.3/{}x{}/{}", block_m, block_n, type),
                                 problem, {block_m, block_n}));
    }
  }
  return all;
}

}  // namespace attnlab::verify
