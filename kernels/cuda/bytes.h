// Stores numbers and texts as one string of bytes, for this machine's kind of files and for pipes.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace attnlab::cuda {

class ByteWriter {
 public:
  template <class T>
  requires std::is_arithmetic_v<T>
  void number(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void text(std::string_view value) {
    number<std::uint64_t>(value.size());
    bytes_.append(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads in the order in which they were written. Throws std::out_of_range at the end.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  requires std::is_arithmetic_v<T> T number() {
    T value;
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::string text() { return std::string(take(number<std::uint64_t>())); }
  bool is_at_end() const { return bytes_.empty(); }

 private:
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size()) throw std::out_of_range("the bytes end too early");
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  std::string_view bytes_;
};

}  // namespace attnlab::cuda
