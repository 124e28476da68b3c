#include "harness/plan/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "harness/base/errors.h"
#include "harness/base/suggest.h"
#include "kernels/api/compiler.h"
#include "kernels/api/text.h"

namespace attnlab {
namespace {

constexpr std::int64_t kGb = 1'000'000'000;
constexpr std::int64_t kKib = 1 << 10;
constexpr std::int64_t kMib = 1 << 20;

// Peaks that a source states with sparsity are halved. Every peak is also what its SMs do at the
// boost clock (gpus_test.cpp). A driver's report is cudaDeviceProp's.
constexpr Gpu kGpus[] = {
    {.name = "A100",
     .variant = "A100 SXM4 80 GB",
     .flops_per_s = {.f16 = 312e12, .bf16 = 312e12, .f32 = 19.5e12},
     .memory = {.bytes_per_s = 2039e9, .bytes = 80 * kGb},
     .chip = {.sms = 108, .l2_bytes = 40 * kMib, .sram_bytes = 164 * kKib, .arch = "sm_80"},
     .source = "Peaks, SMs, L2: NVIDIA A100 Tensor Core GPU Architecture white paper, comparison "
               "of data center GPUs. Memory: NVIDIA A100 80GB data sheet, SXM. Shared memory: CUDA "
               "C++ Programming Guide, compute capability 8.0"},
    {.name = "H100",
     .variant = "H100 SXM5 80 GB",
     .flops_per_s = {.f16 = 989.4e12, .bf16 = 989.4e12, .f32 = 66.9e12},
     .memory = {.bytes_per_s = 3350e9, .bytes = 80 * kGb},
     .chip = {.sms = 132, .l2_bytes = 50 * kMib, .sram_bytes = 228 * kKib, .arch = "sm_90a"},
     .source = "Peaks, SMs, L2: NVIDIA H100 Tensor Core GPU Architecture white paper V1.04, table "
               "3, SXM5. Memory: NVIDIA H100 data sheet, SXM. Shared memory: CUDA C++ Programming "
               "Guide, compute capability 9.0"},
    {.name = "H200",
     .variant = "H200 SXM 141 GB",
     .flops_per_s = {.f16 = 989.4e12, .bf16 = 989.4e12, .f32 = 66.9e12},
     .memory = {.bytes_per_s = 4800e9, .bytes = 141 * kGb},
     .chip = {.sms = 132, .l2_bytes = 60 * kMib, .sram_bytes = 228 * kKib, .arch = "sm_90a"},
     .source = "Memory: NVIDIA H200 data sheet, SXM; the peaks there (1979 with sparsity, 67) are "
               "the H100's, rounded. SMs, L2: as a driver reports. Shared memory: CUDA C++ "
               "Programming Guide, compute capability 9.0"},
    {.name = "T4",
     .variant = "T4 16 GB",
     .flops_per_s = {.f16 = 65e12, .bf16 = std::nullopt, .f32 = 8.1e12},  // Turing has no bf16
     .memory = {.bytes_per_s = 320e9, .bytes = 16 * kGb},
     .chip = {.sms = 40, .l2_bytes = 4 * kMib, .sram_bytes = 64 * kKib, .arch = "sm_75"},
     .source = "Peaks: NVIDIA T4 data sheet, mixed precision FP16/FP32 and single precision. "
               "Memory: NVIDIA T4 product brief PB-09256-001 (the data sheet says 300 GB/s). SMs, "
               "L2: as a driver reports. Shared memory: CUDA C++ Programming Guide, compute "
               "capability 7.5"},
    {.name = "L4",
     .variant = "L4 24 GB",
     .flops_per_s = {.f16 = 121e12, .bf16 = 121e12, .f32 = 30.3e12},
     .memory = {.bytes_per_s = 300e9, .bytes = 24 * kGb},
     .chip = {.sms = 58, .l2_bytes = 48 * kMib, .sram_bytes = 100 * kKib, .arch = "sm_89"},
     .source = "Peaks (242 with sparsity), memory: NVIDIA L4 data sheet. SMs, L2: as a driver "
               "reports. Shared memory: CUDA C++ Programming Guide, compute capability 8.9"},
    {.name = "RTX3090",
     .variant = "GeForce RTX 3090 24 GB",
     .flops_per_s = {.f16 = 71e12, .bf16 = 71e12, .f32 = 35.6e12},
     .memory = {.bytes_per_s = 936e9, .bytes = 24 * kGb},
     .chip = {.sms = 82, .l2_bytes = 6 * kMib, .sram_bytes = 100 * kKib, .arch = "sm_86"},
     .source = "All but shared memory: NVIDIA Ampere GA102 GPU Architecture white paper V2, "
               "appendix A, table 9 (fp32 accumulation, half the rate of fp16). Shared memory: "
               "CUDA C++ Programming Guide, compute capability 8.6"},
};

std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    text += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

// Returns whether a device's name, like "NVIDIA A100-SXM4-80GB", holds the word: an L40 is no L4.
bool has_word(std::string_view name, std::string_view word) {
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of(" -"), name.size());
    if (name.substr(0, end) == word) return true;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return false;
}

}  // namespace

std::span<const Gpu> gpus() { return kGpus; }

const Gpu* find_gpu(std::string_view device_name) {
  const auto* row =
      std::ranges::find_if(kGpus, [&](const Gpu& gpu) { return has_word(device_name, gpu.name); });
  return row == std::end(kGpus) ? nullptr : row;
}

Device device_of(const Gpu& gpu) {
  Device device = device_of_arch(gpu.chip.arch);
  device.name = gpu.name;
  device.multiprocessors = static_cast<int>(*gpu.chip.sms);
  device.l2_bytes = static_cast<std::uint64_t>(*gpu.chip.l2_bytes);
  return device;
}

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
    case Dtype::f32: return gpu.flops_per_s.f32;
    case Dtype::f16: return gpu.flops_per_s.f16;
    case Dtype::bf16: return gpu.flops_per_s.bf16;
    case Dtype::e4m3: break;
  }
  return std::nullopt;
}

const char* to_string(Limit limit) { return limit == Limit::compute ? "compute" : "memory"; }

std::optional<double> ridge_flops_per_byte(const Gpu& gpu, Dtype dtype) {
  const std::optional<double> peak = peak_flops_per_s(gpu, dtype);
  if (!peak || !gpu.memory.bytes_per_s) return std::nullopt;
  return *peak / *gpu.memory.bytes_per_s;
}

std::optional<Roofline> roofline(const Gpu& gpu, Dtype dtype, double flops, double bytes) {
  const std::optional<double> peak = peak_flops_per_s(gpu, dtype);
  if (!peak || !gpu.memory.bytes_per_s) return std::nullopt;
  const double compute_s = flops / *peak;
  const double memory_s = bytes / *gpu.memory.bytes_per_s;
  return Roofline{.limit = compute_s >= memory_s ? Limit::compute : Limit::memory,
                  .seconds = std::max(compute_s, memory_s)};
}

}  // namespace attnlab
