#include "harness/base/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "harness/base/errors.h"
#include "harness/base/text_table.h"

namespace attnlab {
namespace {

class Reader {
 public:
  Reader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  bool at_end() const { return place_ == text_.size(); }

  CsvRow row() {
    CsvRow fields = {field()};
    while (take(',')) fields.push_back(field());
    end_line();
    return fields;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    const auto lines = std::count(text_.begin(), text_.begin() + offset(), '\n');
    throw UsageError(fmt::format("{}: line {}: {}", where_, lines + 1, why));
  }

 private:
  std::ptrdiff_t offset() const { return static_cast<std::ptrdiff_t>(place_); }

  bool take(char c) {
    if (at_end() || text_[place_] != c) return false;
    ++place_;
    return true;
  }

  std::string field() { return take('"') ? quoted() : plain(); }

  std::string plain() {
    const std::size_t end = std::min(text_.find_first_of("\",\r\n", place_), text_.size());
    std::string value(text_.substr(place_, end - place_));
    place_ = end;
    if (!at_end() && text_[place_] == '"') refuse("a quote within a field that has none around it");
    return value;
  }

  // Reads on behind the first quote. Two quotes in a row within the field stand for one.
  std::string quoted() {
    std::string value;
    while (true) {
      const std::size_t end = text_.find('"', place_);
      if (end == std::string_view::npos) refuse("a field's closing quote is missing");
      value += text_.substr(place_, end - place_);
      place_ = end + 1;
      if (!take('"')) return value;
      value += '"';
    }
  }

  void end_line() {
    take('\r');
    if (take('\n')) return;
    refuse(at_end() ? "ends within its last line"
                    : "neither a comma nor the line's end follows a field");
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t place_ = 0;
};

}  // namespace

std::vector<CsvRow> parse_csv(const std::string& text, const std::string& where) {
  Reader reader(text, where);
  std::vector<CsvRow> rows;
  while (!reader.at_end()) {
    rows.push_back(reader.row());
    if (rows.back().size() == rows.front().size()) continue;
    throw UsageError(fmt::format("{}: row {} has {}, but the first has {}", where, rows.size(),
                                 count_of(rows.back().size(), "field"), rows.front().size()));
  }
  return rows;
}

}  // namespace attnlab
