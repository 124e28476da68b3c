// One writer a file.
#pragma once

#include <filesystem>

namespace attnlab {

// Locks the open file against other processes that call this; the lock goes with the descriptor,
// so with the process at the latest, however it ends. Throws UsageError naming the file, and the
// other process where the system tells. Where there are no locks (pipes, devices, some network
// file systems) nothing is locked.
void lock_for_writing(int descriptor, const std::filesystem::path& file);

}  // namespace attnlab
