// The writer of safetensors files.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/errors.h"
#include "harness/safetensors.h"

namespace attnlab {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& why) {
  throw UsageError(fmt::format("{}: {}", file.string(), why));
}

[[noreturn]] void fail_with_errno(const std::filesystem::path& file, const char* action) {
  fail(file, fmt::format("cannot {}: {}", action, std::strerror(errno)));
}

// A file beside `target` that takes its place when all is well, and is gone otherwise.
class Replacement {
 public:
  explicit Replacement(std::filesystem::path target) : target_(std::move(target)) {
    constexpr int kMostTries = 100;  // a process that was killed may have left names behind
    for (int i = 0; i < kMostTries && descriptor_ < 0; ++i) {
      temporary_ = target_;
      temporary_ += fmt::format(".{}-{}.tmp", getpid(), i);
      descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
      if (descriptor_ < 0 && errno != EEXIST) break;
    }
    if (descriptor_ < 0) fail_with_errno(target_, "create a file in its folder");
  }
  ~Replacement() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!in_place_) unlink(temporary_.c_str());
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_with_errno(target_, "write to it");
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

  void put_in_place() {
    if (fsync(descriptor_) != 0) fail_with_errno(target_, "flush it");
    if (close(std::exchange(descriptor_, -1)) != 0) fail_with_errno(target_, "close it");
    if (rename(temporary_.c_str(), target_.c_str()) != 0) fail_with_errno(target_, "replace it");
    in_place_ = true;
    flush_folder();
  }

 private:
  // So that the new name survives a crash of the machine, where the file system can promise it.
  void flush_folder() const {
    const auto folder = target_.has_parent_path() ? target_.parent_path() : ".";
    const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    fsync(descriptor);
    close(descriptor);
  }

  std::filesystem::path target_, temporary_;
  int descriptor_ = -1;
  bool in_place_ = false;
};

// Where the bytes go: a link's own target, and never a device or a pipe, which a rename would
// replace by a file.
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

// The tensors in the order of their bytes.
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
