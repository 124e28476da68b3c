#include "harness/tensors/inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <string>
#include <thread>
#include <utility>

#include "harness/plan/accounting.h"
#include "harness/tensors/safetensors.h"
#include "kernels/api/quantise.h"
#include "kernels/shared/convert.h"
#include "kernels/shared/philox.h"

namespace attnlab {

namespace {

using Four = std::array<float, 4>;

// Holds one row of one tensor, and the random words that belong to it.
struct RowSource {
  PhiloxKey key;
  InputTensor tensor;
  std::int64_t b, h, row;

  // Says what the four words of a call are for; each purpose has numbers of its own. The counter
  // has room for four tensors and four purposes.
  enum class Purpose : u32 { values, outlier_choice, outlier_values };

  // Returns the words of columns 4 * group to 4 * group + 3.
  PhiloxCounter words(std::int64_t group, Purpose purpose) const {
    return philox(
        {.x = static_cast<u32>(group),
         .y = static_cast<u32>(row),
         .z = static_cast<u32>(b),
         .w = static_cast<u32>(h) * 16 + static_cast<u32>(tensor) * 4 + static_cast<u32>(purpose)},
        key);
  }
};

// Keeps the inputs apart from the dropout mask of the same seed.
PhiloxKey input_key(std::uint64_t seed) { return philox_key(seed ^ 0x61746E6C61622E69u); }

// Maps to (0, 1): never to 0, whose logarithm Box-Muller could not take.
double unit(u32 word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

std::array<double, 4> units(const PhiloxCounter& words) {
  return {unit(words.x), unit(words.y), unit(words.z), unit(words.w)};
}

// Makes two independent N(0, 1) of every two uniform numbers (Box-Muller).
Four gaussian(const PhiloxCounter& words) {
  const auto u = units(words);
  Four result;
  for (std::size_t pair = 0; pair < 4; pair += 2) {
    const double radius = std::sqrt(-2.0 * std::log(u[pair]));
    const double angle = 2.0 * std::numbers::pi * u[pair + 1];
    result[pair] = static_cast<float>(radius * std::cos(angle));
    result[pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return result;
}

Four uniform(const PhiloxCounter& words) {
  Four result;
  std::ranges::transform(units(words), result.begin(),
                         [](double u) { return static_cast<float>(2.0 * u - 1.0); });
  return result;
}

Four sparse_integers(const PhiloxCounter& words) {
  static constexpr std::array<float, 6> kValues = {-3, -2, -1, 1, 2, 3};
  constexpr double kZeros = 0.8;
  Four result;
  std::ranges::transform(units(words), result.begin(), [](double u) {
    if (u < kZeros) return 0.0f;
    const auto index = static_cast<std::size_t>((u - kZeros) / (1.0 - kZeros) * kValues.size());
    return kValues[std::min(index, kValues.size() - 1)];
  });
  return result;
}

Four with_outliers(const RowSource& source, std::int64_t group) {
  constexpr double kShare = 0.001;
  constexpr float kDeviation = 10.0f;
  Four result = gaussian(source.words(group, RowSource::Purpose::values));
  const auto choice = units(source.words(group, RowSource::Purpose::outlier_choice));
  if (std::ranges::none_of(choice, [](double u) { return u < kShare; })) return result;
  const Four outliers = gaussian(source.words(group, RowSource::Purpose::outlier_values));
  for (std::size_t i = 0; i < 4; ++i) {
    if (choice[i] < kShare) result[i] += kDeviation * outliers[i];
  }
  return result;
}

Four draw(InputKind kind, const RowSource& source, std::int64_t group) {
  switch (kind) {
    case InputKind::normal:
    case InputKind::outlier_channel:
    case InputKind::v_one:
    case InputKind::v_mean_one:
    case InputKind::sink:
    case InputKind::file: break;
    case InputKind::uniform: return uniform(source.words(group, RowSource::Purpose::values));
    case InputKind::integers:
      return sparse_integers(source.words(group, RowSource::Purpose::values));
    case InputKind::outlier: return with_outliers(source, group);
    case InputKind::large_logits: {
      Four result = gaussian(source.words(group, RowSource::Purpose::values));
      if (source.tensor == InputTensor::q) {
        for (float& value : result) value *= 16.0f;
      }
      return result;
    }
  }
  return gaussian(source.words(group, RowSource::Purpose::values));
}

void draw_row(InputKind kind, const RowSource& source, std::vector<float>& row) {
  for (std::size_t col = 0; col < row.size(); col += 4) {
    const Four four = draw(kind, source, static_cast<std::int64_t>(col / 4));
    std::copy_n(four.begin(), std::min<std::size_t>(4, row.size() - col),
                row.begin() + static_cast<std::ptrdiff_t>(col));
  }
  const bool has_channel = kind == InputKind::outlier_channel && source.tensor != InputTensor::dout;
  if (has_channel) row[0] *= 10.0f;
  if (kind == InputKind::sink && source.tensor == InputTensor::q) row[0] = 4.0f;
  if (kind == InputKind::sink && source.tensor == InputTensor::k && source.row == 0) {
    row[0] += 2.0f * std::sqrt(static_cast<float>(row.size()));
  }
  if (source.tensor != InputTensor::v) return;
  if (kind == InputKind::v_one) std::ranges::fill(row, 1.0f);
  if (kind == InputKind::v_mean_one) {
    for (float& value : row) value += 1.0f;
  }
}

void padding_row(std::int64_t row_index, std::vector<float>& row) {
  for (std::size_t col = 0; col < row.size(); ++col) {
    row[col] = (static_cast<std::size_t>(row_index) + col) % 2 == 0 ? 1e4f : -1e4f;
  }
}

void store_row(Dtype dtype, const std::vector<float>& row, std::int64_t offset, void* data) {
  if (dtype == Dtype::f32) {
    std::ranges::copy(row, static_cast<float*>(data) + offset);
  } else {
    std::ranges::transform(row, static_cast<u16*>(data) + offset,
                           dtype == Dtype::f16 ? f16_from_f32 : bf16_from_f32);
  }
}

// Describes the geometry of one tensor.
struct Extent {
  std::int64_t heads;
  Strides strides;
  std::vector<std::int64_t> rows;       // of each entry's memory
  std::vector<std::int64_t> valid;      // of these, the ones that exist
  std::vector<std::int64_t> first_row;  // packed: where the entry starts; else 0
};

Extent extent(InputTensor tensor, const Problem& problem) {
  const Shape shape = make_shape(problem);
  const bool like_q = tensor == InputTensor::q || tensor == InputTensor::dout;
  const bool packed = problem.lengths.kind == LengthsKind::packed;
  Extent result{.heads = like_q ? problem.num_heads_q : problem.num_heads_kv,
                .strides = like_q ? shape.q : shape.k};
  std::int64_t start = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const std::int64_t valid = like_q ? problem.queries(b) : problem.keys(b);
    const std::int64_t rows = packed ? valid : like_q ? problem.seqlen_q : problem.seqlen_k;
    result.rows.push_back(rows);
    result.valid.push_back(valid);
    result.first_row.push_back(start);
    if (packed) start += rows;
  }
  return result;
}

std::vector<std::int32_t> running_sum(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int32_t> sums = {0};
  for (std::int64_t length : lengths) {
    sums.push_back(sums.back() + static_cast<std::int32_t>(length));
  }
  return sums;
}

// Calls share(i) for each of so many shares, side by side.
void in_shares(int threads, const std::function<void(std::int64_t)>& share) {
  std::vector<std::jthread> workers;
  for (int i = 1; i < threads; ++i) workers.emplace_back(share, i);
  share(0);
}

// Brings rows to where another layout has them; the problems differ in it alone.
void copy_rows(InputTensor tensor, const Problem& from, const void* source, const Problem& to,
               int threads, void* data) {
  const Extent there = extent(tensor, from), here = extent(tensor, to);
  const auto element_bytes = static_cast<std::int64_t>(size_bytes(to.input_dtype()));
  const auto row_bytes = static_cast<std::size_t>(to.head_dim * element_bytes);
  in_shares(threads, [&](std::int64_t share) {
    for (std::int64_t b = 0; b < to.batch; ++b) {
      const std::int64_t rows = here.rows[static_cast<std::size_t>(b)];
      for (std::int64_t h = 0; h < here.heads; ++h) {
        for (std::int64_t r = rows * share / threads; r < rows * (share + 1) / threads; ++r) {
          std::memcpy(
              static_cast<std::byte*>(data) + here.strides.offset(b, h, r) * element_bytes,
              static_cast<const std::byte*>(source) + there.strides.offset(b, h, r) * element_bytes,
              row_bytes);
        }
      }
    }
  });
}

// Copies a tensor of the user's file, whose bytes may lie anywhere. Codes of e4m3 are made of fp32,
// to which 16-bit types are widened.
void copy_given(std::span<const std::byte> given, Dtype from, Dtype to, void* data) {
  if (from == to) {
    std::memcpy(data, given.data(), given.size());
    return;
  }
  for (std::size_t i = 0; i < given.size() / sizeof(u16); ++i) {
    u16 bits;
    std::memcpy(&bits, given.data() + i * sizeof bits, sizeof bits);
    static_cast<float*>(data)[i] = from == Dtype::f16 ? f32_from_f16(bits) : f32_from_bf16(bits);
  }
}

std::span<const std::byte> given_of(const QkvTensors& file, InputTensor tensor) {
  switch (tensor) {
    case InputTensor::q: return file.q;
    case InputTensor::k: return file.k;
    case InputTensor::v: return file.v;
    case InputTensor::dout: return file.dout;
  }
  return {};
}

}  // namespace

void fill_input(InputTensor tensor, const Problem& problem, InputKind kind, std::uint64_t seed,
                int threads, void* data) {
  const Extent where = extent(tensor, problem);
  const PhiloxKey key = input_key(seed);
  const auto fill_share = [&](std::int64_t share) {
    std::vector<float> row(static_cast<std::size_t>(problem.head_dim));
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      const auto entry = static_cast<std::size_t>(b);
      for (std::int64_t h = 0; h < where.heads; ++h) {
        for (std::int64_t r = where.rows[entry] * share / threads;
             r < where.rows[entry] * (share + 1) / threads; ++r) {
          if (r < where.valid[entry]) {
            draw_row(kind, {key, tensor, b, h, r}, row);
          } else {
            padding_row(r, row);
          }
          store_row(problem.input_dtype(), row,
                    where.strides.offset(b, h, where.first_row[entry] + r), data);
        }
      }
    }
  };
  in_shares(threads, fill_share);
}

Inputs::Inputs(Arena& arena, const Problem& problem, InputKind kind, std::uint64_t seed,
               int threads, const QkvTensors* file)
    : Inputs(arena, problem, [&](InputTensor tensor, const void* Tensors::*, void* data) {
        const std::span<const std::byte> given =
            file == nullptr ? std::span<const std::byte>() : given_of(*file, tensor);
        if (given.empty()) {
          fill_input(tensor, problem, kind, seed, threads, data);
        } else {
          copy_given(given, file->problem.dtype, problem.input_dtype(), data);
        }
      }) {}

Inputs::Inputs(Arena& arena, const Problem& problem, const Inputs& other, int threads)
    : Inputs(arena, problem, [&](InputTensor tensor, const void* Tensors::*member, void* data) {
        copy_rows(tensor, other.problem(), other.host().*member, problem, threads, data);
      }) {}

Inputs::Inputs(Arena& arena, const Problem& problem, const Fill& fill)
    : problem_(problem), runtime_(arena.runtime()) {
  const auto element_bytes = static_cast<std::uint64_t>(size_bytes(problem.input_dtype()));
  // Allocates a buffer, has it filled where this process can write, and brings it to the device.
  const auto make = [&]<class T>(const char* name, std::uint64_t bytes, const T*& on_device,
                                 const T*& here, const std::function<void(void*)>& write) {
    void* const data = buffers_.allocate(arena, name, "", bytes);
    void* const readable =
        runtime_.is_host()
            ? data
            : copies_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(bytes)).get();
    write(readable);
    if (readable != data) runtime_.write(data, readable, bytes);
    on_device = static_cast<const T*>(data);
    here = static_cast<const T*>(readable);
  };
  const auto tensor = [&](const char* name, InputTensor which, std::int64_t elements,
                          const void* Tensors::*member) {
    make(name, static_cast<std::uint64_t>(elements) * element_bytes, tensors_.*member,
         host_.*member, [&](void* data) { fill(which, member, data); });
  };
  const auto list = [&]<class T>(const char* name, const std::vector<T>& values,
                                 const T* Tensors::*member) {
    const std::size_t bytes = values.size() * sizeof(T);
    make(name, bytes, tensors_.*member, host_.*member,
         [&](void* data) { std::memcpy(data, values.data(), bytes); });
  };
  const std::int64_t like_q = problem.elements_q();
  const std::int64_t like_k = problem.elements_k();
  tensor("q", InputTensor::q, like_q, &Tensors::q);
  tensor("k", InputTensor::k, like_k, &Tensors::k);
  tensor("v", InputTensor::v, like_k, &Tensors::v);
  if (problem.pass != Pass::fwd) {
    tensor("dO", InputTensor::dout, like_q, &Tensors::dout);
  }
  const Lengths& lengths = problem.lengths;
  if (lengths.kind == LengthsKind::padding) {
    list("keys", std::vector<std::int32_t>(lengths.keys.begin(), lengths.keys.end()),
         &Tensors::keys);
  } else if (lengths.kind == LengthsKind::packed) {
    list("cu_seqlens_q", running_sum(lengths.queries), &Tensors::cu_seqlens_q);
    list("cu_seqlens_k", running_sum(lengths.keys), &Tensors::cu_seqlens_k);
  }
  if (problem.mask.blocks) {
    list("block_pattern", make_block_pattern(problem), &Tensors::block_pattern);
  }
  if (!problem.is_e4m3()) return;
  allocate_codes(arena);
  quantise_inputs();
}

void Inputs::allocate_codes(Arena& arena) {
  for_each_of_e4m3(problem_, [&]<class T>(const char* name, const T* E4m3Inputs::*member,
                                          T* E4m3Outputs::*written, std::int64_t elements) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(elements) * sizeof(T);
    void* const data = buffers_.allocate(arena, name, "", bytes);
    T* const writable = static_cast<T*>(
        runtime_.is_host() ? data
                           : copies_.emplace_back(std::make_unique<std::byte[]>(bytes)).get());
    if (!runtime_.is_host()) sent_.push_back({data, writable, bytes});
    codes_.*written = writable;
    tensors_.e4m3.*member = static_cast<const T*>(data);
    host_.e4m3.*member = writable;
  });
}

void Inputs::quantise_inputs() {
  quantise(problem_, static_cast<const float*>(host_.q), static_cast<const float*>(host_.k),
           static_cast<const float*>(host_.v),
           static_cast<int>(std::max(1u, std::thread::hardware_concurrency())), codes_);
  for (const Sent& sent : sent_) runtime_.write(sent.to, sent.from, sent.bytes);
}

void Inputs::fill(InputTensor tensor, const Value& value) {
  const auto member = tensor == InputTensor::q   ? &Tensors::q
                      : tensor == InputTensor::k ? &Tensors::k
                      : tensor == InputTensor::v ? &Tensors::v
                                                 : &Tensors::dout;
  const void* const data = host_.*member;
  if (data == nullptr) return;  // dO, without a backward
  const Extent where = extent(tensor, problem_);
  std::vector<float> elements(static_cast<std::size_t>(problem_.head_dim));
  for (std::int64_t b = 0; b < problem_.batch; ++b) {
    const auto entry = static_cast<std::size_t>(b);
    for (std::int64_t h = 0; h < where.heads; ++h) {
      for (std::int64_t row = 0; row < where.rows[entry]; ++row) {
        for (std::size_t col = 0; col < elements.size(); ++col) {
          elements[col] = value(b, h, row, static_cast<std::int64_t>(col));
        }
        // The buffer is this object's own; kernels may only read it.
        store_row(problem_.input_dtype(), elements,
                  where.strides.offset(b, h, where.first_row[entry] + row),
                  const_cast<void*>(data));
      }
    }
  }
  if (!runtime_.is_host()) {
    const bool like_q = tensor == InputTensor::q || tensor == InputTensor::dout;
    runtime_.write(const_cast<void*>(tensors_.*member), data,
                   like_q ? bytes_like_q(problem_) : bytes_like_k(problem_));
  }
  if (problem_.is_e4m3()) quantise_inputs();
}

Tensors Inputs::copy(Arena& arena, NamedBuffers& buffers) const {
  Tensors copied = tensors_;
  const auto copy_of = [&](const char* name, const void* from, std::uint64_t bytes) {
    void* const data = buffers.allocate(arena, name, "", bytes);
    runtime_.write(data, from, bytes);
    return data;
  };
  if (problem_.is_e4m3()) {
    for_each_of_e4m3(problem_, [&]<class T>(const char* name, const T* E4m3Inputs::*member,
                                            T* E4m3Outputs::*, std::int64_t elements) {
      copied.e4m3.*member = static_cast<const T*>(
          copy_of(name, host_.e4m3.*member, static_cast<std::uint64_t>(elements) * sizeof(T)));
    });
    return copied;
  }
  const auto tensor = [&](const char* name, const void* Tensors::*member, std::uint64_t bytes) {
    if (host_.*member != nullptr) copied.*member = copy_of(name, host_.*member, bytes);
  };
  tensor("q", &Tensors::q, bytes_like_q(problem_));
  tensor("k", &Tensors::k, bytes_like_k(problem_));
  tensor("v", &Tensors::v, bytes_like_k(problem_));
  tensor("dO", &Tensors::dout, bytes_like_q(problem_));
  return copied;
}

}  // namespace attnlab
