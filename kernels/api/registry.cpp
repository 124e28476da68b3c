#include "kernels/api/registry.h"

#include <stdexcept>
#include <string>

namespace attnlab {

const char* to_string(Backend backend) { return backend == Backend::cpu ? "cpu" : "cuda"; }

Registry::Registry(std::span<const Implementation* const> implementations) {
  for (const Implementation* implementation : implementations) add(*implementation);
}

void Registry::add(const Implementation& implementation) {
  const std::string name = implementation.name;
  if (implementation.api_version != kApiVersion) {
    throw std::invalid_argument("kernel '" + name + "' was built for api version " +
                                std::to_string(implementation.api_version) + ", this is " +
                                std::to_string(kApiVersion) + ": rebuild it");
  }
  if (find(name, implementation.backend) != nullptr) {
    throw std::invalid_argument("kernel '" + name + "' is registered twice for backend " +
                                to_string(implementation.backend));
  }
  implementations_.push_back(&implementation);
}

const Implementation* Registry::find(std::string_view name, Backend backend) const {
  for (const Implementation* implementation : implementations_) {
    if (name == implementation->name && backend == implementation->backend) return implementation;
  }
  return nullptr;
}

}  // namespace attnlab
