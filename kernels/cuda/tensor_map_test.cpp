// Tests tensor maps, as far as no GPU is needed: what is refused, the two views of a tile, and that
// the instructions that read maps compile.
#include "kernels/cuda/tensor_map.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "kernels/cuda/jit.h"
#include "kernels/cuda/test_support.h"

namespace attnlab::cuda {
namespace {

using Numbers = std::vector<i64>;

alignas(256) const char kMemory[256] = {};

TileTensor make_tensor() {
  return {.dtype = Dtype::f16,
          .data = kMemory,
          .strides = strides_bshd(100, 3, 128),
          .batch = 2,
          .heads = 3,
          .rows = 100,
          .head_dim = 128,
          .tile_rows = 64};
}

TensorMapSpec make_spec() { return slab_of(make_tensor()); }

TEST(TensorMap, ASlabIsAsWideAsTheSwizzle) {
  const TensorMapSpec spec = make_spec();
  EXPECT_EQ(invalid(spec), "");
  EXPECT_EQ(spec.extents, (Numbers{128, 100, 3, 2}));
  EXPECT_EQ(spec.strides, (Numbers{384, 128, 38400}));
  EXPECT_EQ(spec.box, (Numbers{64, 64, 1, 1}));
  EXPECT_EQ(spec.box_bytes(), 64 * 64 * 2);

  TileTensor narrow = make_tensor();
  narrow.dtype = Dtype::f32;
  narrow.swizzle = Swizzle::bytes_32;
  EXPECT_EQ(slab_of(narrow).box, (Numbers{8, 64, 1, 1}));
  EXPECT_EQ(slab_of(narrow).box_bytes(), 64 * 32);
}

TEST(TensorMap, ATileIsSlabBehindSlab) {
  const TensorMapSpec spec = tile_of(make_tensor());
  EXPECT_EQ(invalid(spec), "");
  EXPECT_EQ(spec.extents, (Numbers{64, 100, 2, 3, 2}));
  EXPECT_EQ(spec.strides, (Numbers{384, 64, 128, 38400}));
  EXPECT_EQ(spec.box, (Numbers{64, 64, 2, 1, 1}));
  EXPECT_EQ(spec.box_bytes(), 64 * 128 * 2);

  TileTensor ragged = make_tensor();
  ragged.head_dim = 80;
  EXPECT_THROW(tile_of(ragged), std::invalid_argument);
  EXPECT_NO_THROW(slab_of(ragged));
}

// A packed tensor's batch has stride 0, which is not legal, though no coordinate but 0 is used.
TEST(TensorMap, StridesOfSingleElementsAreLegal) {
  TileTensor packed = make_tensor();
  packed.strides = strides_packed(3, 128);
  packed.batch = 1;
  EXPECT_EQ(invalid(slab_of(packed)), "");
  EXPECT_EQ(invalid(tile_of(packed)), "");
  packed.batch = 2;
  EXPECT_NE(invalid(slab_of(packed)), "");
}

TEST(TensorMap, SaysWhatTheHardwareCannotDo) {
  const auto expect = [](const char* words, const auto& spoil) {
    TensorMapSpec spec = make_spec();
    spoil(spec);
    EXPECT_NE(invalid(spec).find(words), std::string::npos)
        << "no '" << words << "' in '" << invalid(spec) << "'";
  };
  using Spec = TensorMapSpec;
  expect("0 dimensions", [](Spec& spec) { spec.extents.clear(); });
  expect("6 dimensions", [](Spec& spec) { spec.extents.resize(6, 1); });
  expect("2 strides", [](Spec& spec) { spec.strides.pop_back(); });
  expect("a box of 3", [](Spec& spec) { spec.box.pop_back(); });
  expect("not aligned to 16 bytes", [](Spec& spec) { spec.data = kMemory + 8; });
  expect("not aligned to 16 bytes", [](Spec& spec) { spec.data = nullptr; });
  expect("dimension 1 has 0 elements", [](Spec& spec) { spec.extents[1] = 0; });
  expect("dimension 1 has 4294967297", [](Spec& spec) { spec.extents[1] = (i64{1} << 32) + 1; });
  expect("dimension 2 is 264 bytes", [](Spec& spec) { spec.strides[1] = 132; });
  expect("dimension 1 is 0 bytes", [](Spec& spec) { spec.strides[0] = 0; });
  expect("dimension 3 is 1099511627776", [](Spec& spec) { spec.strides[2] = i64{1} << 39; });
  expect("257 elements of dimension 1", [](Spec& spec) { spec.box[1] = 257; });
  expect("0 elements of dimension 3", [](Spec& spec) { spec.box[3] = 0; });
  expect("a row of the box has 120 bytes", [](Spec& spec) { spec.box[0] = 60; });
  expect("under the swizzle of 128 bytes", [](Spec& spec) { spec.box[0] = 72; });
  expect("under the swizzle of 32 bytes", [](Spec& spec) { spec.swizzle = Swizzle::bytes_32; });

  TensorMapSpec wide = make_spec();
  wide.swizzle = Swizzle::none;
  wide.box = {256, 256, 1, 1};
  wide.extents[1] = i64{1} << 32;
  EXPECT_EQ(invalid(wide), "");
}

TEST(TensorMap, WhatIsInvalidIsNotMade) {
  TensorMapSpec spec = make_spec();
  spec.strides[0] = 0;
  EXPECT_THROW(make_tensor_map(spec), std::invalid_argument);  // with a driver or without
}

class Sm90Units : public CompilerTest {};

TEST_F(Sm90Units, CompileCleanly) {
  for (const KernelUnit& unit : {box_copy_unit(), launch_attributes_unit()}) {
    const Compilation made = compile(unit, "sm_90a").compilation;
    EXPECT_EQ(made.error, "") << unit.name;
    EXPECT_TRUE(made.advisories.empty()) << unit.name << ": " << made.advisories.front();
    for (const CompiledEntry& entry : made.entries) {
      EXPECT_EQ(entry.stack_bytes, 0) << entry.entry.name << ": is the map copied?";
    }
  }
}

}  // namespace
}  // namespace attnlab::cuda
