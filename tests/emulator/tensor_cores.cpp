#include "tests/emulator/tensor_cores.h"

#include <optional>
#include <vector>

#include "kernels/shared/convert.h"
#include "tests/emulator/counts.h"

namespace attnlab::emulator {
namespace {

// The low 16 bits.
float value_of(Half type, u32 bits) {
  static const std::vector<float> f16 = [] {
    std::vector<float> values(1 << 16);
    for (u32 i = 0; i < values.size(); ++i) values[i] = f32_from_f16(static_cast<u16>(i));
    return values;
  }();
  return type == Half::f16 ? f16[bits & 0xFFFF] : f32_from_bf16(static_cast<u16>(bits));
}

// Where descriptors of wgmma say that 16-bit elements lie, under the swizzle of 128 bytes. Source:
// PTX ISA, matrix descriptor and the canonical layouts of wgmma.
class Factor {
 public:
  Factor(u64 descriptor, bool transposed)
      : transposed_(transposed),
        start_(static_cast<u32>(descriptor & 0x3FFF) << 4),
        leading_(static_cast<u32>(descriptor >> 16 & 0x3FFF) << 4),
        stride_(static_cast<u32>(descriptor >> 32 & 0x3FFF) << 4) {
    if (descriptor >> 62 != 1) fail("a descriptor with another swizzle than that of 128 bytes");
    if ((descriptor >> 49 & 7) != 0) fail("a descriptor with a base offset");
    // Of the address it has 18 bits, which are enough for a block's shared memory.
    const auto base = static_cast<u32>(reinterpret_cast<u64>(dynamic_shared()));
    start_ = base + ((start_ - base) & 0x3FFFF);
  }

  // Element k of the sum; mn: row of the left factor, column of the right one.
  u32 bits(int mn, int k) const {
    if (!transposed_) {  // K-major
      return at(static_cast<u32>(mn / 8) * stride_ + static_cast<u32>(mn % 8 * 128 + k * 2));
    }
    return at(static_cast<u32>(mn / 64) * leading_ + static_cast<u32>(k / 8) * stride_ +
              static_cast<u32>(k % 8 * 128 + mn % 64 * 2));
  }

 private:
  u32 at(u32 offset) const {
    const u32 address = start_ + offset;
    const u32 place = address ^ (address >> 7 & 7) << 4;
    const u8* const element = from_shared(place, 2, 2);
    if (place % 16 == 0) block().touch_by_product(element, 16);  // for its neighbours, too
    return u32{*reinterpret_cast<const u16*>(element)};
  }

  bool transposed_;
  u32 start_, leading_, stride_;
};

}  // namespace

void multiply_m16n8k16(Half type, void* const* products) {
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
  const WarpgroupProduct& first = product.threads[0];
  const auto columns = static_cast<std::size_t>(first.columns);
  count_product(2 * 64 * columns * 16);
  const Factor right(first.descriptor_b, first.transposed_b);
  std::optional<Factor> left;
  if (first.a == nullptr) left.emplace(first.descriptor_a, first.transposed_a);
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
    const auto place = [&](int n) -> float& {
      const auto thread = static_cast<std::size_t>(first_thread + n % 8 / 2);
      return product.threads[thread].d[n / 8 * 4 + half * 2 + n % 2];
    };
    for (int k = 0; k < 16; ++k) {
      for (std::size_t n = 0; n < columns; ++n) {
        d[n] += a[k] * b[static_cast<std::size_t>(k) * columns + n];
      }
    }
    for (int n = 0; n < first.columns; ++n) {
      place(n) = d[static_cast<std::size_t>(n)] + (first.adds ? place(n) : 0.0f);
    }
  }
}

}  // namespace attnlab::emulator
