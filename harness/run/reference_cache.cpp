#include "harness/run/reference_cache.h"

namespace attnlab {

const reference::References& ReferenceCache::of(reference::Products products,
                                                JudgedDropout dropout) {
  Problem problem = problem_;
  if (dropout == JudgedDropout::none) problem.dropout = 0.0;
  const Key key = {products, problem.dropout > 0.0};
  const auto found = made_.find(key);
  if (found != made_.end()) return found->second;
  return made_
      .emplace(key, reference::make_references(problem, inputs_, samples_, threads_, products))
      .first->second;
}

}  // namespace attnlab
