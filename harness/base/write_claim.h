// Keeps a second writer from a file where locks cannot be trusted to.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace attnlab {

// Identifies a process that writes, among all before and after it.
struct Writer {
  std::string host;
  std::string boot;       // of the machine, since when it has been up; "": not known
  std::string processes;  // the namespace in which `process` is a number
  pid_t process = 0;
  unsigned long long start = 0;  // of the process, in ticks of its machine
  std::string job;               // Slurm's cluster, job, step and task; "" outside of it
  bool operator==(const Writer&) const = default;
};
Writer this_writer();

// Returns whether `self` can know that the other process has ended. One of this machine is looked
// for; Slurm restarts a job only once it takes the former start for dead. Of a process of another
// machine and job nothing is known.
bool has_ended(const Writer& other, const Writer& self);

// Names the process that writes to `file` in `file`.writer, while the object lives. It replaces a
// name that a killed process left if has_ended(). If two claim at once, or after Slurm took a
// living job for dead, the last one has the file, and the other learns of it by check().
class WriteClaim {
 public:
  // Throws std::runtime_error where another process has the file, UsageError where nobody can be
  // named beside it.
  explicit WriteClaim(const std::filesystem::path& file);
  // Takes the name away, if it is still this one.
  ~WriteClaim();
  WriteClaim(const WriteClaim&) = delete;
  WriteClaim& operator=(const WriteClaim&) = delete;

  // Must be called before each write. Throws std::runtime_error where another process took the
  // file.
  void check() const;

 private:
  std::filesystem::path file_, claim_;
  Writer self_ = this_writer();
};

}  // namespace attnlab
