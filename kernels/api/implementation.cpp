#include "kernels/api/implementation.h"

namespace attnlab {

Config default_config(const Implementation& implementation) {
  Config config;
  for (int i = 0; i < implementation.num_axes; ++i) {
    config.set(implementation.axes[i].name, implementation.axes[i].default_value);
  }
  return config;
}

bool writes_lse(const Implementation& implementation, const Problem& problem) {
  return implementation.writes_lse == nullptr || implementation.writes_lse(problem);
}

Config resolved(const Implementation& implementation, const Problem& problem, const Config& config,
                const Device& device) {
  if (implementation.resolved == nullptr) return config;
  return implementation.resolved(problem, config, device);
}

Config forward_config(const Implementation& implementation, const Config& config) {
  return implementation.forward_config == nullptr ? config : implementation.forward_config(config);
}

std::string invalid(const Config& config, const Implementation& implementation) {
  for (const auto& [name, value] : config.values()) {
    const ConfigAxis* axis = nullptr;
    for (int i = 0; i < implementation.num_axes; ++i) {
      if (name == implementation.axes[i].name) axis = &implementation.axes[i];
    }
    if (axis == nullptr) return std::string(implementation.name) + " has no axis '" + name + "'";
    if (value < axis->minimum || value > axis->maximum) {
      return name + " = " + std::to_string(value) + " is outside " + implementation.name + "'s [" +
             std::to_string(axis->minimum) + ", " + std::to_string(axis->maximum) + "]";
    }
  }
  return "";
}

}  // namespace attnlab
