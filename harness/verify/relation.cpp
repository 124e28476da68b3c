#include "harness/verify/relation.h"

#include <fmt/format.h>

#include <cmath>

#include "harness/plan/case.h"
#include "reference/comparison.h"
#include "reference/mask.h"
#include "reference/tolerance.h"

namespace attnlab::verify {

namespace {

const char* name_of(Output output) {
  switch (output) {
    case Output::o: return "o";
    case Output::lse: return "lse";
    case Output::dq: return "dq";
    case Output::dk: return "dk";
    case Output::dv: break;
  }
  return output == Output::dk ? "dk" : "dv";
}

bool like_k(Output output) { return output == Output::dk || output == Output::dv; }

void take_bounds(Run& run, const reference::References& references,
                 const std::vector<reference::Verdict>& verdicts) {
  for (const reference::Verdict& verdict : verdicts) {
    if (verdict.tensor == "o") run.bound_o = verdict.bound;
    if (verdict.tensor == "dq") run.bound_dq = verdict.bound;
    if (verdict.tensor == "dk") run.bound_dk = verdict.bound;
    if (verdict.tensor == "dv") run.bound_dv = verdict.bound;
  }
  run.bound_lse = Values(run.problem.batch, run.problem.num_heads_q, run.problem.seqlen_q, 1);
  const double share = reference::lse_share(references);
  for (const reference::RowReference& reference : references.rows) {
    const reference::Sample& sample = reference.sample;
    for (std::size_t i = 0; i < sample.rows.size(); ++i) {
      const auto score_bound =
          static_cast<double>(reference.score_bound(static_cast<Eigen::Index>(i)));
      const double bound = run.problem.is_e4m3()
                               ? reference::lse_bound_of_e4m3(run.problem, score_bound)
                               : reference::lse_bound(score_bound, share);
      *run.bound_lse.row(sample.batch, sample.head, sample.rows[i]) = static_cast<float>(bound);
    }
  }
}

}  // namespace

const Values& Run::values(Output output) const {
  switch (output) {
    case Output::o: return o;
    case Output::lse: return lse;
    case Output::dq: return dq;
    case Output::dk: return dk;
    case Output::dv: break;
  }
  return dv;
}

double Run::bound(Output output, std::int64_t b, std::int64_t h, std::int64_t row) const {
  switch (output) {
    case Output::o: return bound_o;
    case Output::lse: return static_cast<double>(bound_lse.at(b, h, row, 0));
    case Output::dq: return bound_dq;
    case Output::dk: return bound_dk;
    case Output::dv: break;
  }
  return bound_dv;
}

Run run(Subject& subject, const Setup& setup, Bounds bounds) {
  Trial trial(subject, setup);
  trial.launch();
  const Tensors& tensors = trial.host();
  Run result{.setup = setup, .problem = trial.problem()};
  result.q = read_input(subject.inputs(), InputTensor::q);
  result.o = read_like_q(result.problem, tensors.o);
  if (tensors.lse != nullptr) result.lse = read_lse(result.problem, tensors.lse);
  if (setup.pass != Pass::fwd) {
    result.dq = read_like_q(result.problem, tensors.dq);
    result.dk = read_like_k(result.problem, tensors.dk);
    result.dv = read_like_k(result.problem, tensors.dv);
  }
  if (bounds == Bounds::of_the_rule) {
    // Only the bounds are taken: other checks look at what the oracle thinks of the outputs.
    const reference::References& references =
        subject.references(products_of(result.problem, setup.kernel, setup.config));
    take_bounds(result, references, reference::judge(result.problem, tensors, references));
  }
  return result;
}

void Relation::compare(const Run& run, Output output, const Want& want, const Want& bound,
                       const Where& where) const {
  const Problem& problem = run.problem;
  const Values& values = run.values(output);
  if (values.empty()) return;  // a gradient or an lse, of a kernel that has none
  const bool keys = like_k(output);
  for (Place place; place.b < problem.batch; ++place.b) {
    const std::int64_t rows = keys ? reference::keys_in_memory(problem, place.b)
                                   : reference::rows_in_memory(problem, place.b);
    const std::int64_t heads = keys ? problem.num_heads_kv : problem.num_heads_q;
    const std::int64_t columns = output == Output::lse ? 1 : problem.head_dim;
    for (place.h = 0; place.h < heads; ++place.h) {
      for (place.row = 0; place.row < rows; ++place.row) {
        for (place.col = 0; place.col < columns; ++place.col) {
          if (where && !where(place)) continue;
          const auto got = static_cast<double>(values.at(place.b, place.h, place.row, place.col));
          expect(run, output, place, got, want(place), bound(place));
        }
      }
    }
  }
}

void Relation::same(const Run& run, Output output, const Want& want, const Where& where) const {
  compare(
      run, output, want, [](const Place&) { return 0.0; }, where);
}

void Relation::expect(const Run& run, Output output, const Place& place, double got, double want,
                      double bound) const {
  const reference::Element element = {
      .side = like_k(output) ? reference::Side::key : reference::Side::query,
      .batch = place.b,
      .head = place.h,
      .row = place.row,
      .column = output == Output::lse ? -1 : place.col,
      .got = got,
      .want = want,
      .bound = bound};
  if (element.error() <= bound) return;
  throw Failure{"property: " + property_,
                fmt::format("{}: {}; {}", name_of(output),
                            reference::describe(element, run.problem), run.setup.text())};
}

void Relation::fail(const Run& run, const std::string& message) const {
  throw Failure{"property: " + property_,
                fmt::format("{}; {}; {}", message, run.problem.id(), run.setup.text())};
}

Property relate(std::string name, std::string variant,
                std::vector<std::shared_ptr<Subject>> subjects, Holds holds) {
  Property property{.name = std::move(name), .variant = std::move(variant), .subjects = subjects};
  property.check = [subjects = std::move(subjects), holds = std::move(holds)](
                       const Setup& setup, const Relation& relation) {
    std::vector<Run> runs;
    for (const auto& subject : subjects) {
      runs.push_back(run(*subject, setup, Bounds::of_the_rule));
    }
    holds(runs, relation);
  };
  return property;
}

Problem small_problem(Dtype dtype, const std::string& mask, std::int64_t seqlen_q,
                      std::int64_t seqlen_k) {
  Problem problem = {.dtype = dtype,
                     .batch = 2,
                     .num_heads_q = 4,
                     .num_heads_kv = 2,
                     .seqlen_q = seqlen_q,
                     .seqlen_k = seqlen_k,
                     .head_dim = 16,
                     .mask = parse_mask(mask)};
  if (problem.mask.padding) {
    problem.lengths = {
        .kind = LengthsKind::padding, .given = true, .keys = {seqlen_k, seqlen_k / 2}};
  }
  return problem;
}

double small_dropout(Dtype dtype) { return dtype == Dtype::e4m3 ? 0.0 : 0.2; }

}  // namespace attnlab::verify
