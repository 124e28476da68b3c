// The header is parsed as a stream of events, never as a tree: what is not expected at its place
// ends the parse, so that neither depth nor size of strange JSON costs anything.
#include "harness/tensors/safetensors_header.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/errors.h"

namespace attnlab {
namespace {

[[noreturn]] void fail(const std::string& where, const std::string& why) {
  throw UsageError(fmt::format("{}: {}", where, why));
}

class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}
  Header take() { return std::move(header_); }

  bool null() override { refuse(); }
  bool boolean(bool /*value*/) override { refuse(); }
  bool binary(binary_t& /*value*/) override { refuse(); }
  bool number_integer(number_integer_t value) override {  // the parser calls it for -0 and below
    if (list() == nullptr) refuse();
    fail(place(), fmt::format("{} is negative", value));
  }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    if (list() == nullptr) refuse();
    fail(place(), fmt::format("{} is not a whole number below 2^63", text.substr(0, 40)));
  }
  bool number_unsigned(number_unsigned_t value) override {
    std::vector<std::int64_t>* numbers = list();
    if (numbers == nullptr) refuse();
    constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
    if (value > static_cast<number_unsigned_t>(kLargest)) {
      fail(place(), fmt::format("{} is not a whole number below 2^63", value));
    }
    const bool is_shape = inside_ == Inside::shape;
    if (numbers->size() == (is_shape ? kMostDimensions : 2)) {
      fail(place(), is_shape ? fmt::format("has more than {} dimensions", kMostDimensions)
                             : "must be two numbers, [begin, end]");
    }
    numbers->push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool string(string_t& value) override {
    if (inside_ == Inside::metadata) {
      (*header_.metadata)[name_] = std::move(value);
    } else if (inside_ == Inside::tensor && field_ == "dtype") {
      entry_->dtype = std::move(value);
    } else {
      refuse();
    }
    return true;
  }

  bool start_object(std::size_t /*elements*/) override {
    switch (inside_) {
      case Inside::nothing: inside_ = Inside::root; break;
      case Inside::root: inside_ = entry_ != nullptr ? Inside::tensor : Inside::metadata; break;
      default: refuse();
    }
    return true;
  }
  bool key(string_t& value) override {
    switch (inside_) {
      case Inside::root: open_member(value); break;
      case Inside::metadata: open_metadata(value); break;
      default: open_field(value);  // it must be in a tensor: nothing else is an object
    }
    return true;
  }
  bool end_object() override {
    if (inside_ == Inside::tensor) {
      field_.clear();
      if (!entry_->dtype) fail(place(), "dtype is missing");
      if (!entry_->shape) fail(place(), "shape is missing");
      if (!entry_->offsets) fail(place(), "data_offsets is missing");
    }
    inside_ = Inside::root;
    return true;
  }
  bool start_array(std::size_t /*elements*/) override {
    if (inside_ != Inside::tensor || field_ == "dtype") refuse();
    inside_ = field_ == "shape" ? Inside::shape : Inside::offsets;
    (inside_ == Inside::shape ? entry_->shape : entry_->offsets).emplace();
    return true;
  }
  bool end_array() override {
    if (inside_ == Inside::offsets && entry_->offsets->size() != 2) {
      fail(place(), "must be two numbers, [begin, end]");
    }
    inside_ = Inside::tensor;
    return true;
  }
  // The parser's own message may quote megabytes of the header: only the place is kept.
  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::json::exception& /*error*/) override {
    fail(file_ + ": header", fmt::format("not JSON: byte {} is not expected there", position));
  }

 private:
  enum class Inside : std::uint8_t { nothing, root, metadata, tensor, shape, offsets };

  void open_member(const std::string& name) {
    name_ = name;
    entry_ = nullptr;
    const bool is_metadata = name == kMetadataKey;
    if (is_metadata ? header_.metadata.has_value() : header_.entries.contains(name)) {
      fail(file_, fmt::format("header: {} is given twice", quoted(name)));
    }
    if (is_metadata) {
      header_.metadata.emplace();
    } else {
      entry_ = &header_.entries[name];
    }
  }
  void open_metadata(const std::string& key) {
    name_ = key;
    if (header_.metadata->contains(key)) fail(place(), "is given twice");
  }
  void open_field(const std::string& field) {
    field_.clear();
    const bool twice = (field == "dtype" && entry_->dtype) || (field == "shape" && entry_->shape) ||
                       (field == "data_offsets" && entry_->offsets);
    if (twice) fail(place(), fmt::format("{} is given twice", field));
    if (field != "dtype" && field != "shape" && field != "data_offsets") {
      fail(place(),
           fmt::format("unknown field {}; there are: dtype, shape, data_offsets", quoted(field)));
    }
    field_ = field;
  }

  // Returns the numbers that are being read, null elsewhere.
  std::vector<std::int64_t>* list() {
    if (inside_ == Inside::shape) return &*entry_->shape;
    if (inside_ == Inside::offsets) return &*entry_->offsets;
    return nullptr;
  }

  std::string place() const {
    if (inside_ == Inside::metadata) {
      return fmt::format("{}: {}: {}", file_, kMetadataKey, quoted(name_));
    }
    const std::string tensor = tensor_place(file_, name_);
    return field_.empty() ? tensor : tensor + ": " + field_;
  }

  // Refuses a value that has the wrong type for its place.
  [[noreturn]] void refuse() const {
    switch (inside_) {
      case Inside::nothing: fail(file_ + ": header", "must be a JSON object");
      case Inside::root:
        if (entry_ == nullptr) fail(file_ + ": " + kMetadataKey, "must be an object");
        fail(tensor_place(file_, name_), "must be an object");
      case Inside::metadata: fail(place(), "must be a string");
      case Inside::tensor:
        fail(place(), field_ == "dtype" ? "must be a string" : "must be an array of whole numbers");
      case Inside::shape:
      case Inside::offsets: break;
    }
    fail(place(), "must hold whole numbers only");
  }

  std::string file_;
  Header header_;
  Inside inside_ = Inside::nothing;
  std::string name_;   // of the tensor, or the key of the metadata
  std::string field_;  // of the tensor; "" outside one
  HeaderEntry* entry_ = nullptr;
};

}  // namespace

std::string quoted(const std::string& name) {
  constexpr std::size_t kLongest = 80;
  std::size_t length = std::min(name.size(), kLongest);
  const auto is_continuation = [&](std::size_t i) {
    return (static_cast<unsigned char>(name[i]) & 0xC0) == 0x80;
  };
  while (length < name.size() && length > 0 && is_continuation(length)) --length;  // of UTF-8
  std::string text = name.substr(0, length);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; };
  std::ranges::replace_if(text, is_control, '?');
  return fmt::format("'{}{}'", text, length < name.size() ? "..." : "");
}

std::string tensor_place(const std::string& file, const std::string& name) {
  return fmt::format("{}: tensor {}", file, quoted(name));
}

Header parse_header(const std::string& text, const std::string& file) {
  if (!text.starts_with('{')) {
    fail(file + ": header", "does not begin with '{': is this a safetensors file?");
  }
  // The parser takes a zero byte for the end of its input, so it would not see the rest.
  if (text.find('\0') != std::string::npos) fail(file + ": header", "not JSON: holds a zero byte");
  HeaderReader reader(file);
  nlohmann::json::sax_parse(text, &reader);
  return reader.take();
}

}  // namespace attnlab
