// Keeps a file to one writer at a time.
#pragma once

#include <filesystem>
#include <string>

namespace attnlab {

// Says whether an open file is now locked against all others that call this. Where there are no
// locks (pipes, devices, some network file systems) it counts as locked.
struct LockAttempt {
  bool is_locked = false;
  std::string holder;  // " (process 1234)" of who has it instead, where the system tells
};
LockAttempt try_lock(int descriptor);

// Returns whether the lock that an open file holds keeps out a second open file of this machine;
// tries it. Where a file cannot be locked at all there is nothing to keep out: true.
bool refuses_second(int descriptor);

// Returns whether the lock keeps out the processes of all machines: it refuses_second(), and the
// file system is local.
bool is_locked_for_sure(int descriptor);

// Locks the open file as try_lock() does; the lock goes with the descriptor, so with the process at
// the latest, however it ends. Throws std::runtime_error naming the file, and the other process
// where the system tells: nothing is wrong with the command, which may be given again.
void lock_for_writing(int descriptor, const std::filesystem::path& file);

// Guards a file that is read, changed and put back. The constructor creates `file`.lock and waits
// until no other process or thread holds its lock; the destructor releases it. On a file system
// without locks it guards nothing. Throws UsageError if `file`.lock cannot be created.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& file);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace attnlab
