// Holds what vendors say that a GPU can do, and the roofline that follows from it. A value without
// a source is left out: the field is empty and what depends on it gets no number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/api/device.h"
#include "kernels/api/problem.h"

namespace attnlab {

struct Gpu {
  const char* name;     // what --gpu takes
  const char* variant;  // where the name covers several products
  // Holds dense peaks at the boost clock: matrix products with fp32 accumulation on tensor cores
  // for f16 and bf16, ordinary fused multiply-adds for f32.
  struct FlopsPerSecond {
    std::optional<double> f16, bf16, f32;
  } flops_per_s;
  struct Memory {
    std::optional<double> bytes_per_s;
    std::optional<std::int64_t> bytes;
  } memory;
  struct Chip {
    std::optional<std::int64_t> sms;
    std::optional<std::int64_t> l2_bytes;
    std::optional<std::int64_t> sram_bytes;  // shared memory of one SM, the largest setting
    const char* arch;                        // what kernels are compiled for: "sm_90a"
  } chip;
  const char* source;  // of every value: document, table or section
};

std::span<const Gpu> gpus();

// Returns the row of a device by the name that its driver gives it, like "NVIDIA H200"; null if
// there is none.
const Gpu* find_gpu(std::string_view device_name);

// Returns the device that such a GPU would be to kernels, without having one: its chip and name.
Device device_of(const Gpu& gpu);

// Returns the rows that a comma list names, each once; case, blanks, '-' and '_' do not matter.
// Throws UsageError, led by `where`, with the nearest name.
std::vector<const Gpu*> parse_gpus(std::string_view text, const std::string& where);

std::optional<double> peak_flops_per_s(const Gpu& gpu, Dtype dtype);

enum class Limit : std::uint8_t { compute, memory };
const char* to_string(Limit limit);

// Returns the FLOP a byte at which a GPU's arithmetic and its memory take equally long.
std::optional<double> ridge_flops_per_byte(const Gpu& gpu, Dtype dtype);

// Holds the least time that `flops` and `bytes` take if they overlap perfectly: the longer one.
struct Roofline {
  Limit limit = Limit::compute;
  double seconds = 0.0;
};
std::optional<Roofline> roofline(const Gpu& gpu, Dtype dtype, double flops, double bytes);

}  // namespace attnlab
