#include "kernels/cuda/unit_text.h"

#include "kernels/cuda/backend.h"

namespace attnlab::cuda {

std::string config_text(const std::string& type, const ConfigFields& fields) {
  std::string members;
  for (const ConfigField& field : fields) {
    if (field.is_derived) continue;
    const std::string value = !field.is_flag     ? number(field.value)
                              : field.value != 0 ? "true"
                                                 : "false";
    members += (members.empty() ? "." : ", .") + field.name + " = " + value;
  }
  return "constexpr " + type + " kConfig = {" + members + "};\n";
}

std::string unit_name(const std::string& kernel, Dtype dtype, const ConfigFields& fields) {
  std::string name = kernel + "-" + to_string(dtype);
  for (const ConfigField& field : fields) {
    if (field.is_flag) {
      name += field.value != 0 ? field.tag : field.unset_tag;
    } else if (!field.tag.empty()) {
      name += field.tag + number(field.value);
    }
  }
  return name;
}

Config with_fields(Config config, const ConfigFields& fields) {
  for (const ConfigField& field : fields) {
    if (config.contains(field.name)) config.set(field.name, field.value);
  }
  return config;
}

std::string unit_header(const std::string& include, Dtype dtype) {
  return "#include \"" + include +
         "\"\nusing namespace attnlab;\nusing T = " + storage_type(dtype) + ";\n";
}

std::string kernel_text(const KernelEntry& entry, i32 blocks,
                        const std::vector<std::string>& parameters, const std::string& function) {
  std::string declared, passed;
  char name = 'a';
  for (const std::string& parameter : parameters) {
    declared +=
        (declared.empty() ? "" : ", ") + ("const __grid_constant__ " + parameter) + " " + name;
    passed += (passed.empty() ? "" : ", ") + std::string(1, name++);
  }
  return "extern \"C\" __global__ void __launch_bounds__(" + number(entry.threads) + ", " +
         number(blocks) + ")\n" + entry.name + "(" + declared + ") {\n  " + function + "(" +
         passed + ");\n}\n";
}

}  // namespace attnlab::cuda
