// A record file holds one JSON object a line.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/base/write_claim.h"

namespace attnlab {

// Says that records could not be saved, as on a full disk; the message names the file and why.
class NotSaved : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Owns a file of records, which no other process writes until the object is gone. Creates the file
// and its folder. If the file cannot be written, append() throws NotSaved and all others
// UsageError; if another process took it, std::runtime_error. A lock keeps others out, and a
// WriteClaim where locks may not.
class RecordFile {
 public:
  // Leaves the contents as they are. Throws std::runtime_error if another process has the file.
  explicit RecordFile(const std::filesystem::path& file);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // Cuts off what a kill or a power cut left of a last record, and ends a last line that lacks its
  // newline. Returns what was done, "" if all was well. Throws UsageError, and changes nothing, if
  // the last line is neither a record nor the beginning of one.
  std::string repair();

  // Appends a line for each, all with one write() and fsync, so that what is finished survives a
  // kill. Repairs the file first if nobody has. Where it throws, the file is as it was.
  void append(const std::vector<nlohmann::ordered_json>& records);

 private:
  void take();
  void check_claim() const;
  void write_all(const std::string& text);
  void flush();

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::optional<WriteClaim> claim_;  // where the lock is not sure
  bool repaired_ = false;
};

// Reads JSON lines; blank ones are nothing. Throws UsageError naming file and line for anything
// that is not an "attnlab.record/1", for a key that an object of it holds twice, and (naming the
// key) for a value that cannot be; a half-written end is left out and reported in `warnings`.
std::vector<nlohmann::ordered_json> read_records(const std::filesystem::path& file,
                                                 std::vector<std::string>& warnings);

}  // namespace attnlab
