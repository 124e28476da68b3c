// Is to NVTX what a profiler is, for tests: a library that NVTX loads because NVTX_INJECTION64_PATH
// names it. It writes each range that begins to the file that NVTX_LOG names, as "domain: name",
// indented by two spaces for every range around it, and "unbalanced" for one that ends too often.
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <string>

struct nvtxDomainRegistration_st {
  std::string name;
};

namespace {

std::FILE* g_log = nullptr;
int g_depth = 0;

nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  return new nvtxDomainRegistration_st{name};  // lives as long as the process
}

int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  const bool is_text = attributes->messageType == NVTX_MESSAGE_TYPE_ASCII;
  std::fprintf(g_log, "%*s%s: %s\n", 2 * g_depth, "", domain->name.c_str(),
               is_text ? attributes->message.ascii : "no text");
  std::fflush(g_log);
  return g_depth++;
}

int NVTX_API pop(nvtxDomainHandle_t /*domain*/) {
  if (g_depth == 0) std::fputs("unbalanced\n", g_log);
  return --g_depth;
}

template <class Function>
void set(NvtxFunctionTable table, NvtxCallbackIdCore2 which, Function* function) {
  *table[which] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that NVTX looks for
extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const char* file = std::getenv("NVTX_LOG");
  if (file == nullptr) return 0;
  g_log = std::fopen(file, "w");
  if (g_log == nullptr) return 0;
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0 ||
      size <= NVTX_CBID_CORE2_DomainCreateA) {
    return 0;
  }
  set(table, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  set(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
