// Makes a sweep smaller: for another kind of device, or for a quick look.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "kernels/api/registry.h"

namespace attnlab {

struct SweepCut {
  std::vector<std::pair<std::string, nlohmann::ordered_json>> replace;  // axis -> values
  std::vector<std::pair<std::string, nlohmann::ordered_json>> keep;
  nlohmann::ordered_json protocol = nlohmann::ordered_json::object();  // keys that are replaced
  nlohmann::ordered_json peers;                                        // null: as they are
};

// Reads {"replace": {AXIS: VALUES}, "keep": {AXIS: VALUES}, "protocol": {...}, "peers": [...]}, all
// of them optional. Throws UsageError, led by `where`.
SweepCut read_cut(const nlohmann::ordered_json& json, const std::string& where,
                  const Registry& registry);

// Returns the sweep file with axes replaced, as flags do, then without the values of an axis that
// are not to be kept, without the products that have none left, and without the exclusions that
// then speak of nothing. Throws UsageError, led by `where`, where no product is left.
nlohmann::ordered_json cut_sweep(nlohmann::ordered_json sweep, const SweepCut& cut,
                                 const std::string& where, const Registry& registry);

// Returns the cut that `first` and then `second` come to.
SweepCut joined(const SweepCut& first, const SweepCut& second, const Registry& registry);

// Returns a cut in words, like "seqlen 128, 256; batch 1".
std::string describe(const SweepCut& cut);

}  // namespace attnlab
