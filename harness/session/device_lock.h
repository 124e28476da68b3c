// Keeps a second gate or calibration away from a device: two would measure one another.
#pragma once

#include <filesystem>
#include <string>

#include "kernels/api/device.h"

namespace attnlab {

// Holds a lock of the machine (a file in /tmp, which stays; in $ATTNLAB_LOCK_FOLDER, if set) while
// it lives; other users' programs see it, too, whatever TMPDIR says.
class DeviceLock {
 public:
  // Throws std::runtime_error, naming the file and, where the system tells, the process that holds
  // it; also where the file cannot be opened.
  explicit DeviceLock(const Device& device);
  ~DeviceLock();
  DeviceLock(const DeviceLock&) = delete;
  DeviceLock& operator=(const DeviceLock&) = delete;

 private:
  int descriptor_ = -1;
};

// Names the file: a GPU by its UUID, whatever CUDA_VISIBLE_DEVICES hides; all of the CPU is one.
std::filesystem::path lock_file(const Device& device);

}  // namespace attnlab
