// Writes safetensors files.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/replacement.h"
#include "harness/tensors/safetensors.h"

namespace attnlab {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& why) {
  throw UsageError(fmt::format("{}: {}", file.string(), why));
}

// Returns where the bytes go: a link's own target, and never a device or a pipe, which a rename
// would replace by a file.
std::filesystem::path target_of(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail(path, "is there and is not a regular file: name another");
  }
  if (!std::filesystem::is_symlink(path, error)) return path;
  const auto target = std::filesystem::canonical(path, error);
  if (error) fail(path, "is a link to nowhere: name another, or remove it");
  return target;
}

using NamedView = TensorViews::value_type;

// Returns the tensors in the order of their bytes.
std::vector<const NamedView*> in_file_order(const TensorViews& tensors) {
  std::vector<const NamedView*> order;
  for (const NamedView& tensor : tensors) order.push_back(&tensor);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [](const NamedView* t) { return element_bytes(t->second.dtype); });
  return order;
}

std::string make_header(const std::vector<const NamedView*>& order, const Metadata& metadata,
                        const std::filesystem::path& path) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::uint64_t begin = 0;
  for (const NamedView* tensor : order) {
    const auto& [name, view] = *tensor;
    const std::string where = fmt::format("{}: tensor {}", path.string(), quoted(name));
    const std::uint64_t bytes = tensor_bytes(view.dtype, view.shape, where);
    if (name == kMetadataKey) throw UsageError(where + ": is the name of the metadata");
    if (bytes != view.bytes.size()) {
      throw UsageError(fmt::format("{}: has {} bytes, but its dtype and shape need {}", where,
                                   view.bytes.size(), bytes));
    }
    header[name] = {
        {"dtype", view.dtype}, {"shape", view.shape}, {"data_offsets", {begin, begin + bytes}}};
    begin += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::type_error&) {
    fail(path, "a name or a text of the metadata is not UTF-8");
  }
  text.resize(text.size() + (kHeaderStart - text.size() % kHeaderStart) % kHeaderStart, ' ');
  if (text.size() > kMostHeaderBytes) {
    fail(path, fmt::format("the header's {} bytes are above the format's {}", text.size(),
                           kMostHeaderBytes));
  }
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const TensorViews& tensors,
                       const Metadata& metadata) {
  const std::vector<const NamedView*> order = in_file_order(tensors);
  const std::string header = make_header(order, metadata, path);
  std::array<std::byte, kHeaderStart> length{};
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<std::byte>(header.size() >> (8 * i));
  }
  Replacement file(target_of(path));
  file.write(length);
  file.write(std::as_bytes(std::span(header)));
  for (const NamedView* tensor : order) file.write(tensor->second.bytes);
  file.put_in_place();
}

}  // namespace attnlab
