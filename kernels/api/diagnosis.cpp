#include "kernels/api/diagnosis.h"

#include <cstdlib>
#include <filesystem>

namespace attnlab {

const char* to_string(Health health) {
  switch (health) {
    case Health::ok: return "ok";
    case Health::degraded: return "degraded";
    case Health::missing: return "missing";
  }
  return "?";
}

bool expects_gpu() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && (*visible == '\0' || *visible == '-')) return false;
  std::error_code error;
  const std::filesystem::directory_iterator gpus("/proc/driver/nvidia/gpus", error);
  return !error && gpus != std::filesystem::directory_iterator();
}

}  // namespace attnlab
