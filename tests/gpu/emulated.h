// Asks the emulated GPU (tests/emulator) for what no real one says of a launch.
#pragma once

#include <dlfcn.h>

namespace attnlab {

// Returns a function that the emulated libcuda exports, null where the GPU is a real one.
template <class Function>
Function* emulated(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace attnlab
