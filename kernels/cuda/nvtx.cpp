#include "kernels/cuda/nvtx.h"

#include <nvtx3/nvToolsExt.h>

#include "kernels/api/ranges.h"
#include "kernels/cuda/driver.h"

namespace attnlab::cuda {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA(kProfilerDomain);
  return handle;
}

}  // namespace

void push_range(const char* name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}

void pop_range() { nvtxDomainRangePop(domain()); }

void start_profilers() { check(driver().cuProfilerStart(), "starting the profilers that wait"); }

// Where this fails the launches before it have failed, too, and say why.
void stop_profilers() { driver().cuProfilerStop(); }

}  // namespace attnlab::cuda
