// Is the registry of a program that has one kernel more, whose axes nothing else in the tree names:
// it takes the place of kernels/builtin.cpp.
#include "kernels/api/registry.h"
#include "kernels/naive/cpu.h"
#include "kernels/v2/cpu.h"
#include "tests/foreign_kernel/cpu.h"

namespace attnlab {

const Registry& builtin_registry() {
  static constexpr const Implementation* kAll[] = {&naive::kCpu, &v2::kCpu, &foreign::kCpu};
  static const Registry registry(kAll);
  return registry;
}

}  // namespace attnlab
