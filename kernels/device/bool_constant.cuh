// Makes a truth value a type, for functions with auto parameters.
#pragma once

namespace attnlab::device {

template <bool kValue>
struct BoolConstant {
  static constexpr bool value = kValue;
};

}  // namespace attnlab::device
