// One writer a file.
#pragma once

#include <filesystem>
#include <string>

namespace attnlab {

// Says whether an open file is locked now, against all others that call this. Where there are no
// locks (pipes, devices, some network file systems) it counts as locked.
struct LockAttempt {
  bool is_locked = false;
  std::string holder;  // " (process 1234)" of who has it instead, where the system tells
};
LockAttempt try_lock(int descriptor);

// Locks the open file as try_lock() does; the lock goes with the descriptor, so with the process at
// the latest, however it ends. Throws UsageError naming the file, and the other process where the
// system tells.
void lock_for_writing(int descriptor, const std::filesystem::path& file);

// Holds the lock of the file `file`.lock, which it makes, from when nobody else has it to the end
// of its life: for what is read and put back changed. Where there are no locks it holds none.
// Throws UsageError where the file cannot be made.
class Turn {
 public:
  explicit Turn(const std::filesystem::path& file);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace attnlab
