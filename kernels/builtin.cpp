// Lists the kernels of this tree, in priority order: the only file that includes generations.
#include "kernels/api/registry.h"
#include "kernels/minimal/cpu.h"
#include "kernels/minimal/cuda.h"
#include "kernels/naive/cpu.h"
#include "kernels/naive/cuda.h"
#include "kernels/v1/cpu.h"
#include "kernels/v1/cuda.h"
#include "kernels/v2/cpu.h"
#include "kernels/v2/cuda.h"
#include "kernels/v3/cpu.h"
#include "kernels/v3/cuda.h"

namespace attnlab {

const Registry& builtin_registry() {
  static constexpr const Implementation* kBuiltin[] = {
      &naive::kCpu,  &minimal::kCpu,  &v1::kCpu,  &v2::kCpu,  &v3::kCpu,
      &naive::kCuda, &minimal::kCuda, &v1::kCuda, &v2::kCuda, &v3::kCuda,
  };
  static const Registry registry(kBuiltin);
  return registry;
}

}  // namespace attnlab
