// Tests bulk tensor copies through maps, and launch attributes: what sm_90 does with them.
#include <cstdint>
#include <optional>
#include <random>

#include "harness/tensors/arena.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/test_support.h"
#include "tests/gpu/gpu_fixture.h"

namespace attnlab {
namespace {

using cuda::Swizzle;

class Sm90Test : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (gpu().compute_capability < 90) GTEST_SKIP() << "this GPU has no sm_90";
    arena_.emplace(runtime());
  }

  template <class T>
  std::vector<T> download(const Arena::Buffer& buffer, std::size_t count) {
    std::vector<T> values(count);
    runtime().read(values.data(), buffer.get(), count * sizeof(T));
    return values;
  }
  static CUstream stream() { return cuda::as_stream(runtime().queue()); }

  std::optional<Arena> arena_;
};

u32 swizzled(Swizzle swizzle, u32 offset) {
  switch (swizzle) {
    case Swizzle::none: break;
    case Swizzle::bytes_32: return attnlab::swizzle<32>(offset);
    case Swizzle::bytes_64: return attnlab::swizzle<64>(offset);
    case Swizzle::bytes_128: return attnlab::swizzle<128>(offset);
  }
  return offset;
}

struct Corner {
  i64 slab = 0, row = 0, head = 0, batch = 0;  // of a box's first element
};

// BoxCopy has a tensor of random 16-bit words, and boxes of it.
class BoxCopy : public Sm90Test {
 protected:
  void make(cuda::TileTensor tensor, i64 elements) {
    tensor_ = tensor;
    std::mt19937 generator(5);
    words_.resize(static_cast<std::size_t>(elements));
    for (std::uint16_t& word : words_) word = static_cast<std::uint16_t>(generator() | 1U);
    data_ = arena_->allocate("tensor", words_.size() * sizeof(std::uint16_t));
    runtime().write(data_.get(), words_.data(), words_.size() * sizeof(std::uint16_t));
    tensor_.data = data_.get();
  }

  // Makes two batch entries of three heads and 45 rows, tiles of 32.
  void make(Layout layout, i64 head_dim, Swizzle swizzle) {
    constexpr i64 kBatch = 2, kHeads = 3, kRows = 45;
    make({.strides = layout == Layout::bshd ? strides_bshd(kRows, kHeads, head_dim)
                                            : strides_bhsd(kRows, kHeads, head_dim),
          .batch = kBatch,
          .heads = kHeads,
          .rows = kRows,
          .head_dim = head_dim,
          .tile_rows = 32,
          .swizzle = swizzle},
         kBatch * kHeads * kRows * head_dim);
  }

  i64 columns() const { return static_cast<i64>(tensor_.swizzle) / 2; }

  // Returns what `slabs` slabs from the corner on must be in shared memory.
  std::vector<std::uint16_t> expected(const Corner& corner, i64 slabs) const {
    const auto slab_words = static_cast<u32>(columns() * tensor_.tile_rows);
    std::vector<std::uint16_t> box(static_cast<std::size_t>(slabs) * slab_words);
    for (i64 slab = 0; slab < slabs; ++slab) {
      for (i64 r = 0; r < tensor_.tile_rows; ++r) {
        for (i64 c = 0; c < columns(); ++c) {
          const u32 offset = static_cast<u32>(2 * (r * columns() + c));
          box[static_cast<u32>(slab) * slab_words + swizzled(tensor_.swizzle, offset) / 2] =
              at(corner, corner.row + r, (corner.slab + slab) * columns() + c);
        }
      }
    }
    return box;
  }

  std::vector<std::uint16_t> copy_slab(const Corner& corner) {
    const cuda::TensorMapSpec spec = cuda::slab_of(tensor_);
    const auto module = cuda::load(cuda::box_copy_unit(), gpu());
    const cuda::Kernel<TensorMap, u32, void*, i32, i32, i32, i32> kernel(
        *module, cuda::box_copy_unit().entries.at(0));
    const Arena::Buffer to = buffer(spec);
    kernel(stream(), 1, cuda::make_tensor_map(spec), static_cast<u32>(spec.box_bytes()), to.get(),
           static_cast<i32>(corner.slab * columns()), static_cast<i32>(corner.row),
           static_cast<i32>(corner.head), static_cast<i32>(corner.batch));
    return download<std::uint16_t>(to, static_cast<std::size_t>(spec.box_bytes() / 2));
  }

  std::vector<std::uint16_t> copy_tile(const Corner& corner) {
    const cuda::TensorMapSpec spec = cuda::tile_of(tensor_);
    const auto module = cuda::load(cuda::box_copy_unit(), gpu());
    const cuda::Kernel<TensorMap, u32, void*, i32, i32, i32, i32, i32> kernel(
        *module, cuda::box_copy_unit().entries.at(1));
    const Arena::Buffer to = buffer(spec);
    kernel(stream(), 1, cuda::make_tensor_map(spec), static_cast<u32>(spec.box_bytes()), to.get(),
           0, static_cast<i32>(corner.row), static_cast<i32>(corner.slab),
           static_cast<i32>(corner.head), static_cast<i32>(corner.batch));
    return download<std::uint16_t>(to, static_cast<std::size_t>(spec.box_bytes() / 2));
  }

 private:
  std::uint16_t at(const Corner& corner, i64 row, i64 column) const {
    const bool exists = row >= 0 && row < tensor_.rows && column < tensor_.head_dim;
    const i64 first = tensor_.strides.offset(corner.batch, corner.head, row);
    return exists ? words_[static_cast<std::size_t>(first + column)] : std::uint16_t{0};
  }
  Arena::Buffer buffer(const cuda::TensorMapSpec& spec) {
    return arena_->allocate("box", static_cast<std::uint64_t>(spec.box_bytes()));
  }

  cuda::TileTensor tensor_;
  std::vector<std::uint16_t> words_;
  Arena::Buffer data_;
};

constexpr Corner kCorners[] = {
    {},
    {.row = 8, .head = 2, .batch = 1},
    {.row = 24, .head = 1, .batch = 1},  // ends behind the last row
    {.row = 1, .head = 1},               // and one that no pattern of the swizzle begins with
    {.row = -8, .head = 1, .batch = 1},
    {.row = 64, .head = 2, .batch = 1},  // altogether outside
};

TEST_F(BoxCopy, ASlabArrivesSwizzled) {
  for (const Swizzle swizzle : {Swizzle::bytes_32, Swizzle::bytes_64, Swizzle::bytes_128}) {
    for (const Layout layout : {Layout::bshd, Layout::bhsd}) {
      make(layout, 128, swizzle);
      for (Corner corner : kCorners) {
        corner.slab = 128 / columns() - 1;
        SCOPED_TRACE(testing::Message() << static_cast<int>(swizzle) << " bytes, "
                                        << to_string(layout) << ", row " << corner.row);
        EXPECT_EQ(copy_slab(corner), expected(corner, 1));
      }
    }
  }
}

TEST_F(BoxCopy, ATileArrivesSlabBehindSlab) {
  for (const Layout layout : {Layout::bshd, Layout::bhsd}) {
    make(layout, 192, Swizzle::bytes_128);
    for (const Corner& corner : kCorners) {
      SCOPED_TRACE(testing::Message() << to_string(layout) << ", row " << corner.row);
      EXPECT_EQ(copy_tile(corner), expected(corner, 3));
    }
  }
}

TEST_F(BoxCopy, ColumnsPastHeadDimAreZero) {
  make(Layout::bshd, 80, Swizzle::bytes_128);
  const Corner corner = {.slab = 1, .row = 24, .head = 1, .batch = 1};
  EXPECT_EQ(copy_slab(corner), expected(corner, 1));
}

TEST_F(BoxCopy, APackedTensorIsOneEntry) {
  make({.strides = strides_packed(3, 64), .heads = 3, .rows = 70, .head_dim = 64, .tile_rows = 16},
       3 * 70 * 64);
  const Corner corner = {.row = 37, .head = 2};
  EXPECT_EQ(copy_slab(corner), expected(corner, 1));
  EXPECT_EQ(copy_tile(corner), expected(corner, 1));
}

class LaunchAttributes : public Sm90Test {
 protected:
  void SetUp() override {
    Sm90Test::SetUp();
    if (!IsSkipped()) module_ = cuda::load(cuda::launch_attributes_unit(), gpu());
  }
  template <class... Parameters>
  cuda::Kernel<Parameters...> kernel(std::size_t entry) const {
    return {*module_, cuda::launch_attributes_unit().entries.at(entry)};
  }

 private:
  std::shared_ptr<const cuda::Module> module_;
};

TEST_F(LaunchAttributes, BlocksFormClusters) {
  const auto cluster_sizes = kernel<void*>(0);
  const Arena::Buffer sizes = arena_->allocate("sizes", 8 * sizeof(u32));
  for (const int blocks : {1, 2, 4, 8}) {
    cluster_sizes(stream(), {.blocks = 8, .cluster_blocks = blocks}, sizes.get());
    EXPECT_EQ(download<u32>(sizes, 8), std::vector<u32>(8, static_cast<u32>(blocks)));
  }
}

// The leader runs for a millisecond, and the follower is queued behind it at once.
TEST_F(LaunchAttributes, AnEarlyStarterBeginsBeforeTheKernelInFrontHasEnded) {
  const auto leader = kernel<void*, void*>(1);
  const auto follower = kernel<void*, void*>(2);
  const Arena::Buffer value = arena_->allocate("value", sizeof(u32));
  const Arena::Buffer end = arena_->allocate("end", sizeof(u64));
  const Arena::Buffer begin = arena_->allocate("begin", sizeof(u64));
  for (const bool starts_early : {false, true}) {
    runtime().seconds_of(1,
                         [&](int) {
                           leader(stream(), 1, value.get(), end.get());
                           follower(stream(), {.blocks = 1, .starts_early = starts_early},
                                    value.get(), begin.get());
                         },
                         {});
    EXPECT_EQ(download<u32>(value, 1).front(), 42U);
    const bool began_before = download<u64>(begin, 1).front() < download<u64>(end, 1).front();
    EXPECT_EQ(began_before, starts_early);
  }
}

}  // namespace
}  // namespace attnlab
