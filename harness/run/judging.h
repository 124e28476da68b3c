// Whether what a competitor computed is right: held against the references, and nothing written
// where it may not write.
#pragma once

#include <string>
#include <vector>

#include "harness/run/competitor_run.h"
#include "harness/run/context.h"
#include "harness/run/reference_cache.h"
#include "harness/run/whole_reference.h"

namespace attnlab {

// Of one case of a group. All that it finds wrong throws an Ending (Status::failed) with the
// problem and the command that reproduces it.
class Judge {
 public:
  // `inputs` lie in memory of this process; `references` and `whole` are of the whole group, since
  // they are of rows and keys and know no layout. All outlive the object. `whole` judges where it
  // can; null: the oracle judges, by samples.
  Judge(const Case& work, const RunContext& context, const Tensors& inputs,
        ReferenceCache& references, WholeReference* whole)
      : work_(work), context_(context), inputs_(inputs), references_(references), whole_(whole) {}

  // Makes the references of the competitor's own precision, unless they are there: takes long.
  void make_references(const CompetitorRun& run);

  // The tensors that a launch left, which lie in `arena`, and the arena's guards, which are mended.
  void judge(const CompetitorRun& run, const Tensors& tensors, Arena& arena,
             std::vector<reference::Verdict>& verdicts);

  void judge_peer(const CompetitorRun& run, const PeerOutputs& outputs,
                  std::vector<reference::Verdict>& verdicts);

  // `damage`: where launches of the competitor wrote outside of their tensors; empty: nowhere.
  void judge_damage(const CompetitorRun& run, const std::string& damage) const;

 private:
  // What the competitor's twin shares with it. A peer draws dropout masks of its own, so what is
  // judged had none.
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
