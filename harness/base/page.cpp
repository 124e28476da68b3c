#include "harness/base/page.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace attnlab {
namespace {

constexpr std::size_t kNarrowest = 40;
constexpr std::size_t kOfSilentTerminal = 80;

std::optional<std::size_t>& chosen_width() {
  static std::optional<std::size_t> columns;
  return columns;
}

}  // namespace

std::size_t page_width() { return chosen_width().value_or(kPageWidth); }

void set_page_width(std::optional<std::size_t> columns) { chosen_width() = columns; }

std::size_t prose_width() { return std::min(page_width(), kPageWidth); }

std::size_t most_columns() {
  return chosen_width().value_or(std::numeric_limits<std::size_t>::max());
}

std::optional<std::size_t> columns_of(std::FILE* stream) {
  const char* const said = std::getenv("COLUMNS");
  if (said != nullptr && std::atoi(said) > 0) {
    return std::max(kNarrowest, static_cast<std::size_t>(std::atoi(said)));
  }
  winsize size{};
  if (isatty(fileno(stream)) != 1) return std::nullopt;
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return kOfSilentTerminal;
  return std::max(kNarrowest, static_cast<std::size_t>(size.ws_col));
}

}  // namespace attnlab
