#include "harness/plan/builtin_axes.h"

namespace attnlab {

const AxisGrammars& builtin_grammars() {
  static const AxisGrammars kGrammars(builtin_registry());
  return kGrammars;
}

const std::vector<SharedAxis>& builtin_axes() {
  static const std::vector<SharedAxis> kAxes = shared_axes(builtin_registry());
  return kAxes;
}

}  // namespace attnlab
