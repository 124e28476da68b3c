#include "harness/base/build_info.h"

#include "build_info_values.h"  // written at build time by scripts/build_info.cmake

namespace attnlab {

const BuildInfo& build_info() {
  static constexpr BuildInfo kInfo = {.version = ATTNLAB_VERSION,
                                      .commit = ATTNLAB_COMMIT,
                                      .compiler = ATTNLAB_COMPILER,
                                      .flags = ATTNLAB_FLAGS};
  return kInfo;
}

}  // namespace attnlab
