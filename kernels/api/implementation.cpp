#include "kernels/api/implementation.h"

namespace attnlab {

std::span<const ConfigAxis> axes_of(const Implementation& implementation) {
  return {implementation.axes, static_cast<std::size_t>(implementation.num_axes)};
}

const ConfigAxis* find_axis(const Implementation& implementation, AxisRole role) {
  for (const ConfigAxis& axis : axes_of(implementation)) {
    if (axis.role == role) return &axis;
  }
  return nullptr;
}

const ConfigAxis* find_axis(const Implementation& implementation, std::string_view name) {
  for (const ConfigAxis& axis : axes_of(implementation)) {
    if (name == axis.name) return &axis;
  }
  return nullptr;
}

Config default_config(const Implementation& implementation) {
  Config config;
  for (const ConfigAxis& axis : axes_of(implementation)) config.set(axis.name, axis.default_value);
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
    const ConfigAxis* axis = find_axis(implementation, name);
    if (axis == nullptr) return std::string(implementation.name) + " has no axis '" + name + "'";
    if (value < axis->minimum || value > axis->maximum) {
      return name + " = " + std::to_string(value) + " is outside " + implementation.name + "'s [" +
             std::to_string(axis->minimum) + ", " + std::to_string(axis->maximum) + "]";
    }
  }
  return "";
}

}  // namespace attnlab
