#include "harness/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "harness/errors.h"
#include "harness/suggest.h"
#include "kernels/api/text.h"

namespace attnlab {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr std::int64_t kGb = 1'000'000'000;
constexpr std::int64_t kKib = 1 << 10;
constexpr std::int64_t kMib = 1 << 20;

// Peaks that sheets state with sparsity are halved. Shared memory of an SM is in the CUDA C++
// Programming Guide's table of compute capabilities.
constexpr Gpu kGpus[] = {
    {.name = "A100",
     .variant = "A100 SXM4 80 GB",
     .f16_flops_per_s = 312 * kTera,
     .bf16_flops_per_s = 312 * kTera,
     .f32_flops_per_s = 19.5 * kTera,
     .memory_bytes_per_s = 2039 * kGiga,
     .memory_bytes = 80 * kGb,
     .sms = 108,
     .l2_bytes = 40 * kMib,
     .sram_bytes = 164 * kKib,
     .source = "NVIDIA A100 80GB data sheet (2021); NVIDIA A100 Tensor Core GPU Architecture "
               "white paper (SMs, L2)"},
    {.name = "H100",
     .variant = "H100 SXM5 80 GB",
     .f16_flops_per_s = 989 * kTera,
     .bf16_flops_per_s = 989 * kTera,
     .f32_flops_per_s = 67 * kTera,
     .memory_bytes_per_s = 3350 * kGiga,
     .memory_bytes = 80 * kGb,
     .sms = 132,
     .l2_bytes = 50 * kMib,
     .sram_bytes = 228 * kKib,
     .source = "NVIDIA H100 Tensor Core GPU data sheet; NVIDIA H100 Tensor Core GPU Architecture "
               "white paper (SMs, L2)"},
    {.name = "H200",
     .variant = "H200 SXM 141 GB",
     .f16_flops_per_s = 989 * kTera,
     .bf16_flops_per_s = 989 * kTera,
     .f32_flops_per_s = 67 * kTera,
     .memory_bytes_per_s = 4800 * kGiga,
     .memory_bytes = 141 * kGb,
     .sms = 132,
     .l2_bytes = 60 * kMib,
     .sram_bytes = 228 * kKib,
     .source = "NVIDIA H200 Tensor Core GPU data sheet; SMs and L2 as the driver of one reports"},
    {.name = "T4",
     .variant = "T4 16 GB",
     .f16_flops_per_s = 65 * kTera,
     .bf16_flops_per_s = std::nullopt,  // Turing's tensor cores have no bf16
     .f32_flops_per_s = 8.1 * kTera,
     .memory_bytes_per_s = 320 * kGiga,
     .memory_bytes = 16 * kGb,
     .sms = 40,
     .l2_bytes = 4 * kMib,
     .sram_bytes = 64 * kKib,
     .source = "NVIDIA T4 product brief; NVIDIA Turing GPU Architecture white paper (TU104: SMs, "
               "L2)"},
    {.name = "L4",
     .variant = "L4 24 GB",
     .f16_flops_per_s = 121 * kTera,
     .bf16_flops_per_s = 121 * kTera,
     .f32_flops_per_s = 30.3 * kTera,
     .memory_bytes_per_s = 300 * kGiga,
     .memory_bytes = 24 * kGb,
     .sms = std::nullopt,  // sources disagree: 58 or 60
     .l2_bytes = 48 * kMib,
     .sram_bytes = 100 * kKib,
     .source = "NVIDIA L4 Tensor Core GPU data sheet; NVIDIA Ada GPU Architecture white paper "
               "(AD104: L2)"},
    {.name = "RTX3090",
     .variant = "GeForce RTX 3090 24 GB",
     .f16_flops_per_s = 71 * kTera,  // 142 with fp16 accumulation
     .bf16_flops_per_s = 71 * kTera,
     .f32_flops_per_s = 35.6 * kTera,
     .memory_bytes_per_s = 936 * kGiga,
     .memory_bytes = 24 * kGb,
     .sms = 82,
     .l2_bytes = 6 * kMib,
     .sram_bytes = 100 * kKib,
     .source = "NVIDIA Ampere GA102 GPU Architecture white paper, appendix A"},
};

std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    text += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

}  // namespace

std::span<const Gpu> gpus() { return kGpus; }

std::vector<const Gpu*> parse_gpus(std::string_view text, const std::string& where) {
  std::vector<std::string> names;
  for (const Gpu& gpu : kGpus) names.emplace_back(gpu.name);
  std::vector<const Gpu*> chosen;
  for (const std::string_view item : split(text, ',')) {
    const std::string name = plain(item);
    const auto* gpu = std::find_if(std::begin(kGpus), std::end(kGpus),
                                   [&](const Gpu& row) { return name == row.name; });
    if (name.empty()) {
      throw UsageError(fmt::format("{}: a name is missing{}", where, suggestion("", names)));
    }
    if (gpu == std::end(kGpus)) {
      throw UsageError(
          fmt::format("{}: no data of a GPU '{}'{}", where, item, suggestion(name, names)));
    }
    if (std::find(chosen.begin(), chosen.end(), gpu) != chosen.end()) {
      throw UsageError(fmt::format("{}: {} is given twice", where, gpu->name));
    }
    chosen.push_back(gpu);
  }
  return chosen;
}

std::optional<double> peak_flops_per_s(const Gpu& gpu, Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return gpu.f32_flops_per_s;
    case Dtype::f16: return gpu.f16_flops_per_s;
    case Dtype::bf16: return gpu.bf16_flops_per_s;
  }
  return std::nullopt;
}

const char* to_string(Limit limit) { return limit == Limit::compute ? "compute" : "memory"; }

std::optional<double> ridge_flops_per_byte(const Gpu& gpu, Dtype dtype) {
  const std::optional<double> peak = peak_flops_per_s(gpu, dtype);
  if (!peak || !gpu.memory_bytes_per_s) return std::nullopt;
  return *peak / *gpu.memory_bytes_per_s;
}

std::optional<Roofline> roofline(const Gpu& gpu, Dtype dtype, double flops, double bytes) {
  const std::optional<double> peak = peak_flops_per_s(gpu, dtype);
  if (!peak || !gpu.memory_bytes_per_s) return std::nullopt;
  const double compute_s = flops / *peak;
  const double memory_s = bytes / *gpu.memory_bytes_per_s;
  return Roofline{.limit = compute_s >= memory_s ? Limit::compute : Limit::memory,
                  .seconds = std::max(compute_s, memory_s)};
}

}  // namespace attnlab
