#include "kernels/cuda/cubin_cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "kernels/api/compiler.h"
#include "kernels/api/hash.h"
#include "kernels/api/sha256.h"
#include "kernels/api/trusted.h"
#include "kernels/cuda/bytes.h"

namespace attnlab::cuda {
namespace {

namespace fs = std::filesystem;

// It is raised whenever the layout of a file changes: an old one is then no hit.
constexpr const char* kMagic = "attnlab cubin 2";

// A file is the magic, the digest of the rest, and the rest.
std::string to_bytes(const std::string& key, const CachedCubin& entry) {
  ByteWriter content;
  content.text(key);
  content.text(entry.compiler);
  content.number(entry.seconds);
  content.text(entry.log);
  content.text(entry.cubin);
  ByteWriter file;
  file.text(kMagic);
  file.text(sha256(content.bytes()));
  file.text(content.bytes());
  return file.bytes();
}

std::optional<CachedCubin> from_bytes(const std::string& bytes, const std::string& key) try {
  ByteReader file(bytes);
  if (file.text() != kMagic) return std::nullopt;
  const std::string digest = file.text();
  const std::string content = file.text();
  if (digest != sha256(content) || !file.is_at_end()) return std::nullopt;
  ByteReader reader(content);
  if (reader.text() != key) return std::nullopt;
  CachedCubin entry;
  entry.compiler = reader.text();
  entry.seconds = reader.number<double>();
  entry.log = reader.text();
  entry.cubin = reader.text();
  return entry;
} catch (const std::out_of_range&) {
  return std::nullopt;
}

// Writes a new file and waits until the disk has it.
void write_file(const fs::path& file, const std::string& bytes) {
  const auto check = [&](bool is_good) {
    if (!is_good) throw std::system_error(errno, std::generic_category());
  };
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  check(descriptor >= 0);
  struct Closer {
    int descriptor;
    ~Closer() { close(descriptor); }
  } const closer{descriptor};
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t written = write(descriptor, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    check(written >= 0);
    done += static_cast<std::size_t>(written);
  }
  check(fsync(descriptor) == 0);
}

[[noreturn]] void fail_to_keep(const fs::path& where, const std::error_code& why) {
  throw std::runtime_error("compiled kernels cannot be kept in " + where.string() + ": " +
                           why.message() +
                           "; make room there, or name another folder with --cache-dir DIR");
}

// A kernel runs with the user's rights: one that somebody else could have put there is none.
void refuse_untrusted(const fs::path& place) {
  const std::string why = why_untrusted(place);
  if (why.empty()) return;
  throw std::runtime_error("compiled kernels are not taken from " + place.string() + ": " + why +
                           "; take that away from them (chown, chmod go-w) and remove what is not "
                           "yours, or name another folder with --cache-dir DIR");
}

}  // namespace

CubinCache::CubinCache() : CubinCache(cache_folder()) {}

fs::path CubinCache::file_of(const std::string& name, const std::string& key) const {
  std::string leading;
  for (const char c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    leading += is_plain ? c : '_';
  }
  constexpr std::size_t kMostCharacters = 120;
  char hash[24];
  std::snprintf(hash, sizeof(hash), "%016llx",
                static_cast<unsigned long long>(fnv1a(key.data(), key.size())));
  return folder_ / (leading.substr(0, kMostCharacters) + "-" + hash + ".cubin");
}

std::optional<CachedCubin> CubinCache::find(const std::string& name, const std::string& key) const {
  const fs::path file = file_of(name, key);
  std::error_code error;
  if (fs::exists(folder_, error)) refuse_untrusted(folder_);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::nullopt;
  refuse_untrusted(file);
  return from_bytes({std::istreambuf_iterator<char>(stream), {}}, key);
}

void CubinCache::make_folder() const {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!error && access(folder_.c_str(), W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (error) fail_to_keep(folder_, error);
}

void CubinCache::store(const std::string& name, const std::string& key,
                       const CachedCubin& entry) const {
  static std::atomic<int> count = 0;
  const fs::path file = file_of(name, key);
  const fs::path scratch =
      file.string() + "." + std::to_string(getpid()) + "-" + std::to_string(++count) + ".tmp";
  try {
    make_folder();
    std::error_code ignored;
    fs::remove(scratch, ignored);  // of a process of this number that died
    write_file(scratch, to_bytes(key, entry));
    fs::rename(scratch, file);
  } catch (const std::system_error& error) {
    std::error_code ignored;
    fs::remove(scratch, ignored);
    fail_to_keep(folder_, error.code());
  }
}

}  // namespace attnlab::cuda
