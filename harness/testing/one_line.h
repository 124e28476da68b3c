// Reads what is wrapped for people.
#pragma once

#include <algorithm>
#include <string>

namespace attnlab {

// Takes out line breaks, whose places depend on the width of what is printed.
inline std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace attnlab
