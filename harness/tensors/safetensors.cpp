// Reads safetensors files, and checks the header's claims against the file's bytes.
#include "harness/tensors/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <new>
#include <utility>

#include "harness/base/errors.h"
#include "harness/tensors/safetensors_header.h"
#include "kernels/api/hash.h"

namespace attnlab {
namespace {

[[noreturn]] void fail(const std::string& where, const std::string& why) {
  throw UsageError(fmt::format("{}: {}", where, why));
}

struct DtypeRow {
  const char* name;
  std::uint64_t bytes;
};

// These dtypes have whole bytes. Source: version 0.8 of the format's own implementation.
constexpr DtypeRow kDtypes[] = {
    {"F64", 8},     {"F32", 4},         {"F16", 2},     {"BF16", 2},        {"I64", 8},
    {"I32", 4},     {"I16", 2},         {"I8", 1},      {"U64", 8},         {"U32", 4},
    {"U16", 2},     {"U8", 1},          {"BOOL", 1},    {"C64", 8},         {"F8_E4M3", 1},
    {"F8_E5M2", 1}, {"F8_E4M3FNUZ", 1}, {"F8_E8M0", 1}, {"F8_E5M2FNUZ", 1},
};

// The tensors must tile the data from its first to its last byte.
void check_tiling(const std::map<std::string, HeaderEntry>& entries, std::uint64_t data_bytes,
                  const std::string& file) {
  struct Range {
    std::uint64_t begin, end;
    const std::string* name;
  };
  std::vector<Range> ranges;
  for (const auto& [name, entry] : entries) {
    ranges.push_back({static_cast<std::uint64_t>((*entry.offsets)[0]),
                      static_cast<std::uint64_t>((*entry.offsets)[1]), &name});
  }
  std::ranges::sort(ranges, {},
                    [](const Range& range) { return std::pair(range.begin, range.end); });
  std::uint64_t covered = 0;
  const std::string* last = nullptr;
  for (const Range& range : ranges) {
    if (range.begin < covered) {
      fail(tensor_place(file, *range.name),
           "data_offsets overlap those of tensor " + quoted(*last));
    }
    if (range.begin > covered) {
      fail(tensor_place(file, *range.name),
           fmt::format("data_offsets leave a hole: bytes {} to {} belong to no tensor", covered,
                       range.begin));
    }
    covered = range.end;
    last = range.name;
  }
  if (covered != data_bytes) {
    fail(file,
         fmt::format("{} bytes behind the last tensor belong to no tensor", data_bytes - covered));
  }
}

// Checks one tensor's fields against each other and the data.
void check_entry(const HeaderEntry& entry, std::uint64_t data_bytes, const std::string& where) {
  const std::uint64_t expected = tensor_bytes(*entry.dtype, *entry.shape, where);
  const auto begin = static_cast<std::uint64_t>((*entry.offsets)[0]);
  const auto end = static_cast<std::uint64_t>((*entry.offsets)[1]);
  const std::string offsets = fmt::format("data_offsets [{}, {}] ", begin, end);
  if (begin > end) fail(where, offsets + "end before they begin");
  if (end > data_bytes) {
    fail(where,
         offsets + fmt::format("end past the file's {} data bytes: it is truncated or damaged",
                               data_bytes));
  }
  if (end - begin != expected) {
    fail(where, offsets + fmt::format("hold {} bytes, but {} [{}] has {}", end - begin,
                                      *entry.dtype, fmt::join(*entry.shape, ", "), expected));
  }
}

// Streams a file whose size is known, and makes an error of all that can go wrong.
class InputFile {
 public:
  InputFile(const std::filesystem::path& path, FileHash hash)
      : name_(path.string()), hashes_(hash == FileHash::fnv1a) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status)) fail(name_, "no such file");
    if (!std::filesystem::is_regular_file(status)) fail(name_, "is not a regular file");
    size_ = std::filesystem::file_size(path, error);
    stream_.open(path, std::ios::binary);
    if (error || !stream_) fail(name_, "cannot be read");
  }

  std::uint64_t size() const { return size_; }
  // Returns fnv1a() of what was read so far.
  std::uint64_t hash() const { return hashes_ ? hash_ : 0; }

  void read(void* target, std::uint64_t bytes) {
    stream_.read(static_cast<char*>(target), static_cast<std::streamsize>(bytes));
    if (!stream_) fail(name_, "ended early: it changed while it was read");
    if (hashes_) hash_ = fnv1a(target, bytes, hash_);
  }

 private:
  std::string name_;
  bool hashes_;
  std::uint64_t size_ = 0;
  std::uint64_t hash_ = kFnv1aOfNothing;
  std::ifstream stream_;
};

std::string read_header(InputFile& input, const std::string& file) {
  if (input.size() < kHeaderStart) {
    fail(file, fmt::format("has {} bytes, but a safetensors file begins with 8 that state the "
                           "length of its header",
                           input.size()));
  }
  std::array<unsigned char, kHeaderStart> raw_length{};
  input.read(raw_length.data(), raw_length.size());
  std::uint64_t length = 0;
  for (std::size_t i = raw_length.size(); i-- > 0;) length = length << 8 | raw_length[i];
  if (length > kMostHeaderBytes) {
    fail(file, fmt::format("header length {} is above {}: is this a safetensors file?", length,
                           kMostHeaderBytes));
  }
  if (length > input.size() - kHeaderStart) {
    fail(file,
         fmt::format("header length {} is past the end of the file, {} bytes: it is truncated "
                     "or no safetensors file",
                     length, input.size()));
  }
  std::string text(length, '\0');
  input.read(text.data(), length);
  return text;
}

}  // namespace

std::uint64_t element_bytes(const std::string& dtype) {
  const auto* row = std::ranges::find(kDtypes, dtype, &DtypeRow::name);
  return row != std::end(kDtypes) ? row->bytes : 0;
}

std::uint64_t tensor_bytes(const std::string& dtype, std::span<const std::int64_t> shape,
                           const std::string& where) {
  std::uint64_t bytes = element_bytes(dtype);
  if (bytes == 0) {
    std::vector<std::string> names;
    for (const DtypeRow& row : kDtypes) names.emplace_back(row.name);
    fail(where,
         fmt::format("dtype {} is unknown; there are: {}", quoted(dtype), fmt::join(names, ", ")));
  }
  if (shape.size() > kMostDimensions) {
    fail(where, fmt::format("has more than {} dimensions", kMostDimensions));
  }
  for (const std::int64_t size : shape) {
    if (size < 0) fail(where, fmt::format("shape: {} is negative", size));
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) {
      fail(where,
           fmt::format("shape [{}] has more bytes than 64 bits can count", fmt::join(shape, ", ")));
    }
  }
  return bytes;
}

SafetensorsFile read_safetensors(const std::filesystem::path& path, FileHash hash) {
  const std::string file = path.string();
  InputFile input(path, hash);
  const std::string text = read_header(input, file);
  Header header = parse_header(text, file);
  const std::uint64_t data_bytes = input.size() - kHeaderStart - text.size();
  for (const auto& [name, entry] : header.entries) {
    check_entry(entry, data_bytes, tensor_place(file, name));
  }
  check_tiling(header.entries, data_bytes, file);

  SafetensorsFile result{.path = path};
  if (header.metadata) result.metadata = std::move(*header.metadata);
  try {
    result.data = std::make_unique_for_overwrite<std::byte[]>(data_bytes);
  } catch (const std::bad_alloc&) {
    fail(file, fmt::format("its {} bytes do not fit into memory", data_bytes));
  }
  input.read(result.data.get(), data_bytes);
  result.hash = input.hash();
  for (auto& [name, entry] : header.entries) {
    const auto begin = static_cast<std::size_t>((*entry.offsets)[0]);
    const auto end = static_cast<std::size_t>((*entry.offsets)[1]);
    result.tensors[name] = {.dtype = std::move(*entry.dtype),
                            .shape = std::move(*entry.shape),
                            .bytes = {result.data.get() + begin, end - begin}};
  }
  return result;
}

}  // namespace attnlab
