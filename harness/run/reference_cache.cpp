#include "harness/run/reference_cache.h"

#include <utility>

namespace attnlab {

bool ReferenceCache::look_at(reference::Samples samples) {
  if (samples.rows == samples_.rows && samples.columns == samples_.columns) return false;
  samples_ = std::move(samples);
  made_.clear();
  return true;
}

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
