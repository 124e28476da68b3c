// Defines what properties have in common: what a kernel leaves on one or more subjects, and how two
// of these things are compared.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/verify/checks.h"
#include "harness/verify/values.h"

namespace attnlab::verify {

enum class Output { o, lse, dq, dk, dv };

// Holds the outputs of one launch on a subject, and how far each may be from what is exact: the
// tolerance rule's bound, which depends on the problem and its inputs alone.
struct Run {
  Setup setup;
  Problem problem;
  Values q, o, lse, dq, dk, dv;  // (of the gradients: empty without a backward)
  double bound_o = 0.0, bound_dq = 0.0, bound_dk = 0.0, bound_dv = 0.0;
  Values bound_lse;  // (batch, num_heads_q, seqlen_q, 1)

  bool has_backward() const { return !dq.empty(); }
  const Values& values(Output output) const;
  double bound(Output output, std::int64_t b, std::int64_t h, std::int64_t row) const;
};

// Launches the setup on the subject, once.
enum class Bounds { none, of_the_rule };
Run run(Subject& subject, const Setup& setup, Bounds bounds);

// Names an element of an output.
struct Place {
  std::int64_t b = 0, h = 0, row = 0, col = 0;
};

// Ends the check where a property does not hold.
class Relation {
 public:
  explicit Relation(std::string property) : property_(std::move(property)) {}

  using Want = std::function<double(const Place&)>;
  using Where = std::function<bool(const Place&)>;

  // Checks that every element of the output is within the bound of what is wanted, but for those
  // that `where` leaves out. Columns are asked one by one.
  void compare(const Run& run, Output output, const Want& want, const Want& bound,
               const Where& where = {}) const;
  // Checks the same with no room at all: 0 is 0 whatever its sign, NaN is never equal.
  void same(const Run& run, Output output, const Want& want, const Where& where = {}) const;

  // Checks one element.
  void expect(const Run& run, Output output, const Place& place, double got, double want,
              double bound) const;
  [[noreturn]] void fail(const Run& run, const std::string& message) const;

 private:
  std::string property_;
};

// Describes a property that is put to every kernel.
struct Property {
  std::string name;     // the property's own, like "causal-prefix"
  std::string variant;  // like "causal/f16"
  std::vector<std::shared_ptr<Subject>> subjects;
  Pass pass = Pass::fwdbwd;
  // Says whether kernels without the pass are asked about the forward alone.
  enum class Without { forward_alone, skipped };
  Without without = Without::forward_alone;
  std::optional<Backend> only_on;
  bool needs_lse = false;       // kernels that write none are skipped
  bool scores_in_fp32 = false;  // kernels that keep them in a 16-bit type are skipped
  // Small tiles are replaced by this size; 0 keeps them. Kernels without tiles are then skipped.
  std::pair<std::int64_t, std::int64_t> tiles = {0, 0};
  // Throws Failure where the kernel has not got the property. The setup has small tiles, and sums
  // in a fixed order where the kernel has one.
  std::function<void(const Setup& setup, const Relation& relation)> check;
};

using Holds = std::function<void(const std::vector<Run>& runs, const Relation& relation)>;

// Makes a property of a relation between the outputs of one launch on each of the subjects.
Property relate(std::string name, std::string variant,
                std::vector<std::shared_ptr<Subject>> subjects, Holds holds);

// Holds what the files of properties share.
struct Scene {
  std::uint64_t seed = 0;
  const Device* device = nullptr;

  std::shared_ptr<Subject> subject(Problem problem, Subject::Edit edit = {}) const {
    problem.seed = seed;
    return std::make_shared<Subject>(problem, InputKind::normal, seed, *device, std::move(edit));
  }
};

// Makes a problem of two batch entries, four query heads on two K/V heads.
Problem small_problem(Dtype dtype, const std::string& mask, std::int64_t seqlen_q = 45,
                      std::int64_t seqlen_k = 53);

// Returns the dropout of problems that have some: e4m3 has none.
double small_dropout(Dtype dtype);

// The next three return for e4m3 what holds of codes and scales, too: where a part of a problem
// must have the codes of the whole, scales are of blocks and the part ends where a block does.
std::vector<Property> algebraic_properties(const Scene& scene, Dtype dtype);
std::vector<Property> mask_properties(const Scene& scene, Dtype dtype);
std::vector<Property> launch_properties(const Scene& scene, Dtype dtype);
std::vector<Property> dropout_properties(const Scene& scene, Dtype dtype);
std::vector<Property> large_score_properties(const Scene& scene, Dtype dtype);

}  // namespace attnlab::verify
