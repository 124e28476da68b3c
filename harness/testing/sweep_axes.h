// Sets axes of sweeps that tests make by hand.
#pragma once

#include <string>
#include <string_view>

#include "harness/plan/builtin_axes.h"

namespace attnlab {

inline void set_axis(Sweep& sweep, std::string_view axis, std::string_view text,
                     const std::string& where) {
  builtin_grammars().set(sweep, axis, text, where);
}

}  // namespace attnlab
