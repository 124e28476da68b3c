// Whether what a competitor computed is right: held against the references, and nothing written
// where it may not write.
#pragma once

#include <string>
#include <vector>

#include "harness/run/context.h"
#include "harness/run/entrant.h"
#include "harness/run/reference_cache.h"

namespace attnlab {

// Of one case of a group. All that it finds wrong throws an Ending (Status::failed) with the
// problem and the command that reproduces it.
class Judge {
 public:
  // `inputs` lie in memory of this process; `references` are of the whole group, since they are of
  // rows and keys and know no layout. All outlive the object.
  Judge(const Case& work, const RunContext& context, const Tensors& inputs,
        ReferenceCache& references)
      : work_(work), context_(context), inputs_(inputs), references_(references) {}

  // The references of the entrant's own precision; made when first asked for, which takes long.
  const reference::References& references_of(const Entrant& entrant);

  // The tensors that a launch left, which lie in `arena`, and the arena's guards, which are mended.
  void judge(const Entrant& entrant, const Tensors& tensors, Arena& arena,
             std::vector<reference::Verdict>& verdicts);

  void judge_peer(const Entrant& entrant, const PeerOutputs& outputs,
                  std::vector<reference::Verdict>& verdicts);

  // `damage`: where launches of the entrant wrote outside of their tensors; empty: nowhere.
  void judge_damage(const Entrant& entrant, const std::string& damage) const;

 private:
  std::string named(const std::string& failure) const;
  void fail_if(const std::string& failure, const Entrant& entrant) const;

  const Case& work_;
  const RunContext& context_;
  const Tensors& inputs_;
  ReferenceCache& references_;
};

}  // namespace attnlab
