// Tests products of a warpgroup on e4m3, tile by tile: operands arrive by bulk copies as they do in
// a kernel, P is rounded in registers, V^T stands in the order that this leaves. Small integers
// make every sum exact; sums of very different sizes show what the accumulator keeps.
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/shared/quantise.h"
#include "kernels/shared/tile.h"
#include "tests/gpu/product_fixture.h"

namespace attnlab {
namespace {

constexpr i64 kRows = 64;

// Tiles are those of Q (64, head_dim), K (keys, head_dim) and V^T (head_dim, keys).
struct Tiles {
  SlabTile q, k, v;
  explicit Tiles(const ProductSize& size)
      : q{.rows = 64, .columns = static_cast<i32>(size.head_dim), .element_bytes = 1},
        k{.rows = static_cast<i32>(size.keys), .columns = q.columns, .element_bytes = 1},
        v{.rows = q.columns, .columns = k.rows, .element_bytes = 1} {}
};

// Computes S (64, keys) = Q K^T with both factors in shared memory; O (64, head_dim) = P V with P
// in registers.
KernelUnit unit(const ProductSize& size) {
  const Tiles tiles(size);
  const auto bytes = static_cast<u64>(tiles.q.bytes() + tiles.k.bytes() + tiles.v.bytes() + 64);
  return {.name = "e4m3-products-" + size.name(),
          .source = "constexpr int kKeys = " + std::to_string(size.keys) +
                    ", kHeadDim = " + std::to_string(size.head_dim) + ";" + kProductText + R"(
struct Maps {
  TensorMap q, k, v;
};

extern "C" __global__ void __launch_bounds__(128)
products(const __grid_constant__ Maps maps, const float* p, float* s, float* o) {
  extern __shared__ __align__(1024) u8 memory[];
  constexpr SlabTile kQ = {.rows = 64, .columns = kHeadDim, .element_bytes = 1};
  constexpr SlabTile kK = {.rows = kKeys, .columns = kHeadDim, .element_bytes = 1};
  constexpr SlabTile kV = {.rows = kHeadDim, .columns = kKeys, .element_bytes = 1};
  const u32 sQ = ptx::cvta_to_shared(memory);
  const u32 sK = sQ + kQ.bytes(), sV = sK + kK.bytes();
  const Ring<1> ring = make_ring(sV + kV.bytes());
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(ring.full(0), kQ.bytes() + kK.bytes() + kV.bytes());
    start_copies(kQ, maps.q, sQ, ring);
    start_copies(kK, maps.k, sK, ring);
    start_copies(kV, maps.v, sV, ring);
  }
  ring.wait_full(consumer_start());

  Accumulator<1, kKeys / 8> rS;
  ptx::wgmma_fence();
  start_product<E4m3, kHeadDim / 32>(rS, KMajor<kQ>(sQ, 0), KMajor<kK>(sK, 0));
  ptx::wgmma_wait_group<0>();
  fence_operand(rS);
  for_own(rS, [&](i32 row, i32 column, float& value) { s[row * kKeys + column] = value; });

  FragmentsA<kKeys / 32> rP;
  for_own(rS, [&](i32 row, i32 column, float& value) { value = p[row * kKeys + column]; });
  round_to_e4m3(rP, rS);
  Accumulator<1, kHeadDim / 8> rO;
  fence_operand(rP);
  ptx::wgmma_fence();
  start_product<E4m3>(rO, rP, KMajor<kV>(sV, 0), ScaleD::zero);
  ptx::wgmma_wait_group<0>();
  fence_operand(rO);
  fence_operand(rP);
  for_own(rO, [&](i32 row, i32 column, float& value) { o[row * kHeadDim + column] = value; });
}
)",
          .entries = {{.name = "products", .threads = 128, .dynamic_shared_bytes = bytes}},
          .must_be_clean = false};  // sums of 256 columns beside P, in one warpgroup of all roles
}

struct Maps {
  TensorMap q, k, v;
};

using Matrix = std::vector<float>;  // row by row

Matrix matrix(i64 rows, i64 columns, const std::function<float(i64, i64)>& element) {
  Matrix values;
  for (i64 row = 0; row < rows; ++row) {
    for (i64 column = 0; column < columns; ++column) values.push_back(element(row, column));
  }
  return values;
}

struct Results {
  Matrix s, o;
};

class E4m3Product : public ProductTest, public testing::WithParamInterface<ProductSize> {
 protected:
  Matrix integer_matrix(i64 rows, i64 columns) {
    const std::vector<int> values = integers(rows * columns);
    return {values.begin(), values.end()};
  }
  Arena::Buffer upload_e4m3(const Matrix& values) {
    std::vector<std::uint8_t> bits;
    for (const float value : values) bits.push_back(e4m3_from_f32(value));
    return upload(bits);
  }
  static TensorMap map(const Arena::Buffer& data, const SlabTile& tile) {
    return cuda::make_tensor_map(cuda::slab_of(
        {.dtype = Dtype::e4m3,
         .data = data.get(),
         .strides = {.row = tile.columns},
         .rows = tile.rows,
         .head_dim = tile.columns,
         .tile_rows = tile.rows,
         .swizzle = tile.row_bytes() == 128 ? cuda::Swizzle::bytes_128 : cuda::Swizzle::bytes_64}));
  }

  // Takes q (64, head_dim), k (keys, head_dim), p (64, keys), v (keys, head_dim).
  Results multiply(const ProductSize& size, const Matrix& q, const Matrix& k, const Matrix& p,
                   const Matrix& v) {
    const i64 keys = size.keys, head_dim = size.head_dim;  // a lambda cannot capture a binding
    const Tiles tiles(size);
    const Matrix v_transposed = matrix(head_dim, keys, [&](i64 column, i64 slot) {
      const i64 key = slot / 16 * 16 + key_of_slot(slot % 16);
      return v[static_cast<std::size_t>(key * head_dim + column)];
    });
    const Arena::Buffer gQ = upload_e4m3(q), gK = upload_e4m3(k), gV = upload_e4m3(v_transposed);
    const Arena::Buffer gP = upload(p), gS = floats(kRows * keys), gO = floats(kRows * head_dim);
    const KernelUnit needed = unit(size);
    const auto module = cuda::load(needed, gpu());
    const cuda::Kernel<Maps, void*, void*, void*> kernel(*module, needed.entries.at(0));
    kernel(cuda::as_stream(runtime().queue()), 1,
           Maps{.q = map(gQ, tiles.q), .k = map(gK, tiles.k), .v = map(gV, tiles.v)}, gP.get(),
           gS.get(), gO.get());
    runtime().synchronize();
    return {download(gS, kRows * keys), download(gO, kRows * head_dim)};
  }
};

TEST_P(E4m3Product, IsExactForSmallIntegers) {
  const auto [keys, head_dim] = GetParam();
  const Matrix q = integer_matrix(kRows, head_dim), k = integer_matrix(keys, head_dim);
  const Matrix p = integer_matrix(kRows, keys), v = integer_matrix(keys, head_dim);
  const Results results = multiply(GetParam(), q, k, p, v);
  const auto sum = [](i64 terms, const std::function<float(i64)>& term) {
    float all = 0.0f;
    for (i64 i = 0; i < terms; ++i) all += term(i);
    return all;
  };
  const auto at = [](const Matrix& values, i64 index) {
    return values[static_cast<std::size_t>(index)];
  };
  const i64 columns = head_dim, num_keys = keys;
  EXPECT_EQ(results.s, matrix(kRows, keys, [&](i64 row, i64 key) {
              return sum(columns, [&](i64 i) {
                return at(q, row * columns + i) * at(k, key * columns + i);
              });
            }));
  EXPECT_EQ(results.o, matrix(kRows, head_dim, [&](i64 row, i64 column) {
              return sum(num_keys, [&](i64 i) {
                return at(p, row * num_keys + i) * at(v, i * columns + column);
              });
            }));
}

INSTANTIATE_TEST_SUITE_P(Sizes, E4m3Product,
                         testing::Values(ProductSize{64, 64}, ProductSize{128, 64},
                                         ProductSize{128, 128}, ProductSize{64, 192},
                                         ProductSize{128, 256}, ProductSize{192, 64},
                                         ProductSize{192, 128}),
                         [](const auto& size) { return size.param.name(); });

using E4m3Accumulator = E4m3Product;

// Sum has one row of Q: 1 or -1 in the first of 64 columns and small * 2^-7 in others, against a K
// of 1 and 2^-7. All other keys and rows are 0.
struct Sum {
  float one, small;
  std::vector<i64> columns;  // of `small`
  float expected;
};

TEST_F(E4m3Accumulator, Keeps13BitsAndCutsOffTheRest) {
  constexpr i64 kColumns = 64, kKeys = 64;
  constexpr float kLast = 0x1p-13f;  // the last bit behind 1
  std::vector<i64> many;
  for (i64 column = 32; column < 64; ++column) many.push_back(column);
  const std::vector<Sum> sums = {{1.0f, 0x1p-6f, {1}, 1.0f + kLast},
                                 {1.0f, 0x1p-6f, {33}, 1.0f + kLast},
                                 {1.0f, 0x1p-7f, {1}, 1.0f},
                                 {1.0f, 0x1p-7f, {33}, 1.0f},
                                 {1.0f, 0x1.Cp-6f, {1}, 1.0f + kLast},
                                 {1.0f, 0x1.Cp-6f, {33}, 1.0f + kLast},
                                 {-1.0f, -0x1.Cp-6f, {33}, -1.0f - kLast},
                                 {1.0f, -0x1p-7f, {33}, 1.0f},
                                 {1.0f, 0x1p-7f, many, 1.0f},
                                 {0.0f, 0x1p-7f, many, 0x1p-9f}};
  const auto zero = [](i64, i64) { return 0.0f; };
  const Matrix q = matrix(kRows, kColumns, [&](i64 row, i64 column) {
    if (row >= static_cast<i64>(sums.size())) return 0.0f;
    const Sum& sum = sums[static_cast<std::size_t>(row)];
    if (column == 0) return sum.one;
    for (const i64 own : sum.columns) {
      if (own == column) return sum.small;
    }
    return 0.0f;
  });
  const Matrix k = matrix(kKeys, kColumns, [](i64 key, i64 column) {
    return key > 0 ? 0.0f : column == 0 ? 1.0f : 0x1p-7f;
  });
  const Results results =
      multiply({kKeys, kColumns}, q, k, matrix(kRows, kKeys, zero), matrix(kKeys, kColumns, zero));
  for (std::size_t row = 0; row < sums.size(); ++row) {
    EXPECT_EQ(results.s[row * kKeys], sums[row].expected) << "sum " << row;
  }
}

// The exponent that all are aligned to is the sum of the factors' exponents: 1.5 * 1.5 = 2.25 keeps
// what is 2^-13 beside it, of which two make the last bit of the sum. Both lie in one wgmma.
TEST_F(E4m3Accumulator, AlignsToTheSumOfExponents) {
  constexpr i64 kColumns = 64, kKeys = 64;
  const auto zero = [](i64, i64) { return 0.0f; };
  const Matrix q = matrix(kRows, kColumns, [](i64 row, i64 column) {
    const bool has_small = column > 0 && column <= row;  // as many as the row's number
    return row >= 4 ? 0.0f : column == 0 ? 1.5f : has_small ? 0x1p-6f : 0.0f;
  });
  const Matrix k = matrix(kKeys, kColumns, [](i64 key, i64 column) {
    return key > 0 ? 0.0f : column == 0 ? 1.5f : 0x1p-7f;
  });
  const Results results =
      multiply({kKeys, kColumns}, q, k, matrix(kRows, kKeys, zero), matrix(kKeys, kColumns, zero));
  EXPECT_EQ(results.s[0 * kKeys], 2.25f);
  EXPECT_EQ(results.s[1 * kKeys], 2.25f) << "its 14th bit is cut off";
  EXPECT_EQ(results.s[2 * kKeys], 2.25f + 0x1p-12f);
  EXPECT_EQ(results.s[3 * kKeys], 2.25f + 0x1p-12f);
}

// satfinite gives 448 at the most, and NaN stays.
TEST_F(E4m3Accumulator, GetsLargePAs448AndNaNAsNaN) {
  constexpr i64 kColumns = 64, kKeys = 64;
  const auto zero = [](i64, i64) { return 0.0f; };
  const Matrix p = matrix(kRows, kKeys, [](i64 row, i64 key) {
    if (key > 0) return 0.0f;
    return row == 0 ? 1000.0f : row == 1 ? -1e9f : row == 2 ? std::nanf("") : 1.0f;
  });
  const Matrix v = matrix(kKeys, kColumns, [](i64 key, i64) { return key == 0 ? 1.0f : 0.0f; });
  const Results results = multiply({kKeys, kColumns}, matrix(kRows, kColumns, zero),
                                   matrix(kKeys, kColumns, zero), p, v);
  EXPECT_EQ(results.o[0], 448.0f);
  EXPECT_EQ(results.o[kColumns], -448.0f);
  EXPECT_TRUE(std::isnan(results.o[2 * kColumns]));
  EXPECT_EQ(results.o[3 * kColumns], 1.0f);
}

}  // namespace
}  // namespace attnlab
