// Tests of shared-memory maps list the parts of a map, which must not overlap, for every config.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/api/arch.h"
#include "kernels/api/compiler.h"
#include "kernels/api/implementation.h"
#include "kernels/shared/base.h"

namespace attnlab::cuda {

struct SharedPart {
  std::string name;
  i64 begin = 0;
  i64 bytes = 0;
  i64 alignment = 1;
};

// Expects that each part is aligned, lies within `bytes` and overlaps no other.
inline void expect_apart(std::vector<SharedPart> parts, i64 bytes) {
  std::erase_if(parts, [](const SharedPart& part) { return part.bytes == 0; });
  std::ranges::sort(parts, {}, &SharedPart::begin);
  i64 end = 0;
  std::string before = "the beginning";
  for (const SharedPart& part : parts) {
    EXPECT_EQ(part.begin % part.alignment, 0) << part.name;
    EXPECT_GE(part.begin, end) << part.name << " meets " << before;
    end = std::max(end, part.begin + part.bytes);
    before = part.name;
  }
  EXPECT_LE(end, bytes) << before;
}

// Calls check(problem, config, device) for the default config and those that are verified, under
// all that decides a kernel's tile, where it runs. Returns how many times.
template <class Check>
int for_each_config(const Implementation& kernel, Pass pass, const Check& check) {
  std::vector<Config> configs = {default_config(kernel)};
  for (const ConfigsToVerify& group : kernel.configs_to_verify()) {
    for (const Config& tile : group.configs) {
      configs.push_back(default_config(kernel));
      configs.back().set_all(tile);
    }
  }
  int checked = 0;
  for (const Arch& arch : known_archs()) {
    const Device device = device_of_arch(arch.name);
    for (const i64 head_dim : {8, 24, 32, 64, 80, 96, 128, 160, 192, 256}) {
      for (const double dropout : {0.0, 0.1}) {
        for (const char* mask : {"none", "causal", "window:100:0", "blocks:butterfly:64x64"}) {
          const Problem problem = {.pass = pass,
                                   .dtype = Dtype::f16,
                                   .seqlen_q = 512,
                                   .seqlen_k = 512,
                                   .head_dim = head_dim,
                                   .mask = parse_mask(mask),
                                   .dropout = dropout};
          for (const Config& config : configs) {
            if (!kernel.unsupported(problem, config, device).empty()) continue;
            SCOPED_TRACE(problem.id() + " on " + arch.name + " with " + config.to_string());
            check(problem, config, device);
            ++checked;
          }
        }
      }
    }
  }
  return checked;
}

}  // namespace attnlab::cuda
