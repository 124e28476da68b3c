// Puts together the text of a unit for NVRTC: what the units of all kernels have alike.
#pragma once

#include <string>
#include <vector>

#include "kernels/api/compiler.h"
#include "kernels/api/config.h"
#include "kernels/api/problem.h"
#include "kernels/shared/base.h"

namespace attnlab::cuda {

inline std::string number(i64 value) { return std::to_string(value); }

// ConfigField is one value of a kernel's config as all that speak of it see it: the text of its
// unit, the unit's name, and what `resolved` says of the axis of that name.
struct ConfigField {
  std::string name;
  i64 value = 0;
  bool is_flag = false;
  std::string tag = {};        // in the unit's name, before the value; of a flag that is set, alone
  std::string unset_tag = {};  // of a flag that is not set
  bool is_derived = false;     // follows from the others: no member of the config
};
inline ConfigField count(const char* name, i32 value, const char* tag = "") {
  return {.name = name, .value = value, .tag = tag};
}
inline ConfigField flag(const char* name, bool is_set, const char* tag = "",
                        const char* unset_tag = "") {
  return {
      .name = name, .value = is_set ? 1 : 0, .is_flag = true, .tag = tag, .unset_tag = unset_tag};
}
inline ConfigField derived(const char* name, i32 value, const char* tag) {
  return {.name = name, .value = value, .tag = tag, .is_derived = true};
}
using ConfigFields = std::vector<ConfigField>;

// Returns "constexpr v2::ForwardConfig kConfig = {.head_dim = 64, ..., .dropout = false};".
std::string config_text(const std::string& type, const ConfigFields& fields);

// Returns "v2-forward-f16-d64-128x64-w4-s2-dropout" for "v2-forward".
std::string unit_name(const std::string& kernel, Dtype dtype, const ConfigFields& fields);

// Returns the config with the axes that are fields set to their values.
Config with_fields(Config config, const ConfigFields& fields);

// Returns the include of a kernel's header and, as T, the storage type.
std::string unit_header(const std::string& include, Dtype dtype);

// Returns a kernel: its name and threads, how many of its blocks a multiprocessor shall hold, the
// structs that are its parameters (mostly one, {"v2::ForwardArguments<T>"}), and the function that
// gets them and does the work ("v2::forward<T, kConfig>").
std::string kernel_text(const KernelEntry& entry, i32 blocks,
                        const std::vector<std::string>& parameters, const std::string& function);

}  // namespace attnlab::cuda
