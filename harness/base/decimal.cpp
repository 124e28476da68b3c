#include "harness/base/decimal.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string>

namespace attnlab {

double times_power_of_ten(double value, int exponent) {
  if (!std::isfinite(value)) return value;
  std::array<char, 32> shortest;  // "-1.7976931348623157e+308"
  const auto written = std::to_chars(shortest.data(), shortest.data() + shortest.size(), value,
                                     std::chars_format::scientific);
  const std::string text(shortest.data(), written.ptr);
  const std::size_t e = text.find('e');
  const std::string moved =
      text.substr(0, e + 1) + std::to_string(std::stoi(text.substr(e + 1)) + exponent);
  double result = value * std::pow(10.0, exponent);  // where no double holds the decimal
  std::from_chars(moved.data(), moved.data() + moved.size(), result);
  return result;
}

}  // namespace attnlab
