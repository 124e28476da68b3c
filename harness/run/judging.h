// Judges whether what a competitor computed is right: compares it with the references, and checks
// that nothing was written outside.
#pragma once

#include <string>
#include <vector>

#include "harness/run/competitor_run.h"
#include "harness/run/context.h"
#include "harness/run/reference_cache.h"
#include "harness/run/whole_reference.h"

namespace attnlab {

// Judges one case of a group. If anything is wrong it throws an Ending (Status::failed) with the
// problem and the command that reproduces it.
class Judge {
 public:
  // `inputs` lie in memory of this process; `references` and `whole` are of the whole group, since
  // they are of rows and keys and know no layout. All outlive the object. `whole` judges where it
  // can; where it is null, the oracle judges samples.
  Judge(const Case& work, const RunContext& context, const Tensors& inputs,
        ReferenceCache& references, WholeReference* whole)
      : work_(work), context_(context), inputs_(inputs), references_(references), whole_(whole) {}

  // Makes the references of the competitor's own precision, unless they are there: takes long.
  void make_references(const CompetitorRun& run);

  // Judges a launch's tensors, which lie in `arena`, and the arena's guards, which it mends.
  void judge(const CompetitorRun& run, const Tensors& tensors, Arena& arena,
             std::vector<reference::Verdict>& verdicts);

  void judge_peer(const CompetitorRun& run, const PeerOutputs& outputs,
                  std::vector<reference::Verdict>& verdicts);

  // Fails where launches wrote outside of their tensors, as `damage` says; "" means nowhere.
  void judge_damage(const CompetitorRun& run, const std::string& damage) const;

 private:
  // Returns what the competitor's twin shares with it. A peer draws dropout masks of its own, so it
  // is judged without dropout.
  reference::Products products_of_twin(const CompetitorRun& run) const;
  static JudgedDropout dropout_of(const CompetitorRun& run);
  const reference::References& references_of(const CompetitorRun& run);
  std::string named(const std::string& failure) const;
  void fail_if(const std::string& failure, const CompetitorRun& run) const;

  const Case& work_;
  const RunContext& context_;
  const Tensors& inputs_;
  ReferenceCache& references_;
  WholeReference* whole_;
};

}  // namespace attnlab
