// Converts numbers to other units, without digits that nobody measured.
#pragma once

namespace attnlab {

// Returns the decimal that reads back as `value`, with its point moved: 0.000698127 s become
// 0.698127 ms, where a product would be 0.6981269999999999.
double times_power_of_ten(double value, int exponent);

}  // namespace attnlab
