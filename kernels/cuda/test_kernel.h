// TestedKernel asks a kernel for GPUs for its configs and refusals, which needs no GPU.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>
#include <string>
#include <utility>

#include "kernels/api/compiler.h"
#include "kernels/api/implementation.h"
#include "kernels/shared/base.h"

namespace attnlab::cuda {

inline Device hopper() { return device_of_arch("sm_90a"); }

// Takes heads and lengths that no tile divides; two query heads share a K/V head.
inline Problem problem_of_300(Pass pass, i64 head_dim) {
  return {.pass = pass,
          .dtype = Dtype::f16,
          .batch = 2,
          .num_heads_q = 4,
          .num_heads_kv = 2,
          .seqlen_q = 300,
          .seqlen_k = 300,
          .head_dim = head_dim};
}

template <const Implementation& kKernel>
struct TestedKernel {
  static Config config_of(std::initializer_list<std::pair<const char*, i64>> values) {
    Config config = default_config(kKernel);
    for (const auto& [name, value] : values) config.set(name, value);
    return config;
  }

  static std::string reason(const Problem& problem, const Config& config,
                            const Device& device = hopper()) {
    return kKernel.unsupported(problem, config, device);
  }

  static void expect_reason(const Problem& problem, const Config& config,
                            const std::string& words) {
    const std::string why = reason(problem, config);
    EXPECT_NE(why.find(words), std::string::npos) << "'" << why << "' lacks '" << words << "'";
  }

  // These say what every kernel on mma.sync runs and refuses (kernels/cuda/mma_sync.h).
  static void expect_all_head_dims() {
    for (const char* arch : {"sm_80", "sm_90a"}) {
      for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
        for (i64 head_dim = 8; head_dim <= 256; head_dim += 8) {
          EXPECT_EQ(
              reason(problem_of_300(pass, head_dim), default_config(kKernel), device_of_arch(arch)),
              "")
              << arch << " " << head_dim;
        }
      }
    }
  }
  static void expect_mma_sync_refusals() {
    const Config open = default_config(kKernel);
    expect_reason(problem_of_300(Pass::fwd, 68), open, "multiple of 8");
    expect_reason(problem_of_300(Pass::fwd, 264), open, "above 256");
    Problem problem = problem_of_300(Pass::fwd, 64);
    EXPECT_NE(reason(problem, open, device_of_arch("sm_75")).find("8.0"), std::string::npos);
    problem.dtype = Dtype::f32;
    expect_reason(problem, open, "f16 or bf16");
  }

  // Names the units that are compiled for all random problems of a pass (harness/verify/draw.h).
  static std::set<std::string> units_of_all_problems(Pass pass) {
    std::set<std::string> names;
    for (i64 head_dim = 8; head_dim <= 256; head_dim += 8) {
      for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        for (const double dropout : {0.0, 0.1}) {
          Problem problem = problem_of_300(pass, head_dim);
          problem.dtype = dtype;
          problem.dropout = dropout;
          for (const char* mask : {"none", "causal", "window:3:4", "padding"}) {
            problem.mask = parse_mask(mask);
            for (const KernelUnit& unit :
                 kKernel.units(problem, default_config(kKernel), hopper())) {
              names.insert(unit.name);
            }
          }
        }
      }
    }
    return names;
  }
};

}  // namespace attnlab::cuda
