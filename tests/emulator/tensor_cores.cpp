#include "tests/emulator/tensor_cores.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "kernels/shared/convert.h"
#include "tests/emulator/counts.h"

namespace attnlab::emulator {
namespace {

// Returns the value of the low 16 bits.
float value_of(Factors type, u32 bits) {
  static const std::vector<float> f16 = [] {
    std::vector<float> values(1 << 16);
    for (u32 i = 0; i < values.size(); ++i) values[i] = f32_from_f16(static_cast<u16>(i));
    return values;
  }();
  return type == Factors::f16 ? f16[bits & 0xFFFF] : f32_from_bf16(static_cast<u16>(bits));
}

// Factor is where wgmma's descriptors say that elements lie, under the swizzle of 128 bytes or,
// K-major, of 64. Source: PTX ISA, matrix descriptor and the canonical layouts of wgmma.
class Factor {
 public:
  Factor(u64 descriptor, bool transposed)
      : transposed_(transposed),
        start_(static_cast<u32>(descriptor & 0x3FFF) << 4),
        leading_(static_cast<u32>(descriptor >> 16 & 0x3FFF) << 4),
        stride_(static_cast<u32>(descriptor >> 32 & 0x3FFF) << 4) {
    const u64 swizzle = descriptor >> 62;
    if (swizzle != 1 && swizzle != 2) fail("a descriptor without the swizzle of 128 or 64 bytes");
    row_bytes_ = swizzle == 1 ? 128 : 64;
    if ((descriptor >> 49 & 7) != 0) fail("a descriptor with a base offset");
    // The address has 18 bits, which are enough for a block's shared memory.
    const auto base = static_cast<u32>(reinterpret_cast<u64>(dynamic_shared()));
    start_ = base + ((start_ - base) & 0x3FFFF);
  }

  // Returns element k of the sum; mn: row of the left factor, column of the right one.
  u32 bits(int mn, int k) const {
    if (!transposed_) return bits_of<u16>(k_major_offset(mn, k * 2));
    if (row_bytes_ != 128) fail("a factor that is not K-major under the swizzle of 64 bytes");
    return bits_of<u16>(static_cast<u32>(mn / 64) * leading_ + static_cast<u32>(k / 8) * stride_ +
                        static_cast<u32>(k % 8 * 128 + mn % 64 * 2));
  }
  u8 k_major_byte(int row, int k) const {
    if (transposed_) fail("a factor of e4m3 that is not K-major");
    return bits_of<u8>(k_major_offset(row, k));
  }

 private:
  u32 k_major_offset(int row, int byte) const {
    return static_cast<u32>(row / 8) * stride_ + static_cast<u32>(row % 8) * row_bytes_ +
           static_cast<u32>(byte);
  }
  template <class T>
  T bits_of(u32 offset) const {
    const u32 address = start_ + offset;
    const u32 place = address ^ (address >> 7 & (row_bytes_ / 16 - 1)) << 4;
    const u8* const element = from_shared(place, sizeof(T), sizeof(T));
    if (place % 16 == 0) block().touch_by_product(element, 16);  // for its neighbours, too
    return *reinterpret_cast<const T*>(element);
  }

  bool transposed_;
  u32 start_, leading_, stride_, row_bytes_;
};

// Returns column n of a row of D where a thread holds it: of four threads the first is given.
float& sum_at(const Product& product, int row, int n) {
  const auto thread = static_cast<std::size_t>(row / 16 * 32 + row % 8 * 4 + n % 8 / 2);
  return product.threads[thread].d[n / 8 * 4 + row / 8 % 2 * 2 + n % 2];
}

std::optional<Factor> left_in_memory(const WarpgroupProduct& first) {
  if (first.a != nullptr) return std::nullopt;
  return Factor(first.descriptor_a, first.transposed_a);
}

constexpr int kE4m3Steps = 32;            // k of one wgmma
constexpr int kE4m3Bits = 13;             // that it keeps behind a leading one
constexpr int kSmallestOfProducts = -18;  // exponent of the smallest code's square

// Adds products to a sum as tensor cores of sm_90 do for e4m3: all addends are aligned to the
// largest exponent and lose, towards zero, what lies below its 13th bit; so does their sum. The
// exponent of a product is the sum of its factors', whatever their mantissas make of it. All of it
// was measured on an H100 (tests/gpu/e4m3_product_test.cpp).
float add_e4m3(const float (&a)[kE4m3Steps], const float* b, float sum) {
  const auto exponent = [](float x) {
    return static_cast<i32>(bit_cast<u32>(x) >> 23 & 0xFFu) - 127;
  };
  float products[kE4m3Steps];
  const auto keep = [](float x) {
    return bit_cast<float>(bit_cast<u32>(x) & ~((1u << (23 - kE4m3Bits)) - 1));
  };
  i32 largest = exponent(sum);
  float plain = sum;
  for (int k = 0; k < kE4m3Steps; ++k) {
    products[k] = a[k] * b[k];
    plain += products[k];
    if (products[k] != 0.0f) largest = std::max(largest, exponent(a[k]) + exponent(b[k]));
  }
  if (!std::isfinite(plain)) return plain;
  // A rescaled sum may be so small that no float holds 2^13 over it, nor its 13th bit.
  if (largest < kSmallestOfProducts) return keep(sum);
  const auto unit = bit_cast<float>(static_cast<u32>(largest - kE4m3Bits + 127) << 23);
  const auto per_unit = bit_cast<float>(static_cast<u32>(kE4m3Bits - largest + 127) << 23);
  i32 units = static_cast<i32>(sum * per_unit);
  for (const float product : products) units += static_cast<i32>(product * per_unit);
  return keep(static_cast<float>(units) * unit);
}

void multiply_e4m3(const Product& product) {
  static const std::vector<float> values = [] {
    std::vector<float> all(256);
    for (u32 i = 0; i < all.size(); ++i) all[i] = f32_from_e4m3(static_cast<u8>(i));
    return all;
  }();
  const WarpgroupProduct& first = product.threads[0];
  count_product(2 * 64 * static_cast<u64>(first.columns) * kE4m3Steps);
  const Factor right(first.descriptor_b, first.transposed_b);
  const std::optional<Factor> left = left_in_memory(first);
  std::vector<float> b;  // columns x k
  for (int n = 0; n < first.columns; ++n) {
    for (int k = 0; k < kE4m3Steps; ++k) b.push_back(values[right.k_major_byte(n, k)]);
  }
  for (int row = 0; row < 64; ++row) {
    float a[kE4m3Steps];
    for (int k = 0; k < kE4m3Steps; ++k) {
      const auto thread = static_cast<std::size_t>(row / 16 * 32 + row % 8 * 4 + k % 16 / 4);
      a[k] = values[left ? left->k_major_byte(row, k)
                         : product.threads[thread].a[row / 8 % 2 + k / 16 * 2] >> k % 4 * 8 & 0xFF];
    }
    for (int n = 0; n < first.columns; ++n) {
      float& sum = sum_at(product, row, n);
      sum = add_e4m3(a, b.data() + n * kE4m3Steps, first.adds ? sum : 0.0f);
    }
  }
}

}  // namespace

void multiply_m16n8k16(Factors type, void* const* products) {
  count_product(2 * 16 * 8 * 16);
  const auto decode = [type](u32 bits) { return value_of(type, bits); };
  float a[16][16], b[16][8], d[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<const WarpProduct*>(products[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + i % 2 * 8, column = 2 * t + i / 2 * 8;
      a[row][column] = decode(own.a[i]);
      a[row][column + 1] = decode(own.a[i] >> 16);
      d[g + i / 2 * 8][2 * t + i % 2] = own.d[i];
    }
    b[2 * t][g] = decode(own.b0);
    b[2 * t + 1][g] = decode(own.b0 >> 16);
    b[2 * t + 8][g] = decode(own.b1);
    b[2 * t + 9][g] = decode(own.b1 >> 16);
  }
  for (int row = 0; row < 16; ++row) {
    float step[8] = {};  // tensor cores add a step's products first, as no loop of FMAs does
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) step[column] += a[row][k] * b[k][column];
    }
    for (int column = 0; column < 8; ++column) d[row][column] += step[column];
  }
  for (int lane = 0; lane < 32; ++lane) {
    float* const own = static_cast<const WarpProduct*>(products[lane])->d;
    for (int i = 0; i < 4; ++i) own[i] = d[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
  }
}

void multiply(const Product& product) {
  if (product.type == Factors::e4m3) return multiply_e4m3(product);
  const WarpgroupProduct& first = product.threads[0];
  const auto columns = static_cast<std::size_t>(first.columns);
  count_product(2 * 64 * columns * 16);
  const Factor right(first.descriptor_b, first.transposed_b);
  const std::optional<Factor> left = left_in_memory(first);
  std::vector<float> b(16 * columns);
  for (int k = 0; k < 16; ++k) {
    for (int n = 0; n < first.columns; ++n) {
      b[static_cast<std::size_t>(k) * columns + static_cast<std::size_t>(n)] =
          value_of(product.type, right.bits(n, k));
    }
  }
  for (int row = 0; row < 64; ++row) {
    const int first_thread = row / 16 * 32 + row % 8 * 4;  // of the four that hold the row
    const int half = row / 8 % 2;
    float a[16];
    for (int k = 0; k < 16; ++k) {
      u32 bits = 0;
      if (left) {
        bits = left->bits(row, k);
      } else {
        const auto thread = static_cast<std::size_t>(first_thread + k % 8 / 2);
        bits = product.threads[thread].a[half + k / 8 * 2] >> (k % 2 * 16);
      }
      a[k] = value_of(product.type, bits);
    }
    std::vector<float> d(columns);  // of this step alone, as in mma.sync
    for (int k = 0; k < 16; ++k) {
      for (std::size_t n = 0; n < columns; ++n) {
        d[n] += a[k] * b[static_cast<std::size_t>(k) * columns + n];
      }
    }
    for (int n = 0; n < first.columns; ++n) {
      float& sum = sum_at(product, row, n);
      sum = d[static_cast<std::size_t>(n)] + (first.adds ? sum : 0.0f);
    }
  }
}

}  // namespace attnlab::emulator
