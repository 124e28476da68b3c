#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "harness/base/file_lock.h"
#include "harness/session/doctor.h"

namespace attnlab {

FolderLocks try_locks(const std::filesystem::path& folder) {
  std::string name = (folder / ".attnlab-XXXXXX").string();
  const int descriptor = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) return {.trouble = std::strerror(errno)};
  FolderLocks locks = {.system = file_system_of(descriptor)};
  locks.refuses_second = try_lock(descriptor).is_locked && refuses_second(descriptor);
  unlink(name.c_str());
  close(descriptor);
  return locks;
}

Diagnosis diagnose_locks(const FolderLocks& locks) {
  Diagnosis line{.what = "records here"};
  if (!locks.trouble.empty()) {
    line.health = Health::degraded;
    line.finding = "no file can be made in this folder: " + locks.trouble;
    line.remedy = "run where records can be written, or name their file by --out";
    return line;
  }
  const std::string claim =
      "FILE.writer beside a FILE of records names who writes to it, and others keep away";
  if (locks.refuses_second && locks.system.is_local) {
    line.finding = fmt::format("{}, local: a lock keeps a second writer out", locks.system.name);
  } else if (locks.refuses_second) {
    line.finding =
        fmt::format("{}: a lock keeps a second writer of this machine out; for those of others, {}",
                    locks.system.name, claim);
  } else {
    line.health = Health::degraded;
    line.finding = fmt::format("{}: a lock keeps nobody out; {}", locks.system.name, claim);
    line.remedy =
        "give each run and shard a file of its own; if one was killed on another machine, its "
        "FILE.writer may have to be removed";
  }
  return line;
}

}  // namespace attnlab
