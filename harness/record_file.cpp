// Record files: JSON lines, appended so that a kill at any moment costs at most the last line.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "harness/errors.h"
#include "harness/record.h"

namespace attnlab {

namespace {

using Json = nlohmann::ordered_json;
constexpr int kDeepest = 64;

[[noreturn]] void fail(const std::filesystem::path& file, const char* action) {
  throw UsageError(fmt::format("{}: cannot {}: {}", file.string(), action, std::strerror(errno)));
}

// Whether the file ends inside a line: a process was killed while it wrote.
bool ends_inside_line(int descriptor, const std::filesystem::path& file) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) fail(file, "look at it");
  if (!S_ISREG(status.st_mode) || status.st_size == 0) return false;
  char last = '\n';
  if (pread(descriptor, &last, 1, status.st_size - 1) != 1) fail(file, "read its end");
  return last != '\n';
}

// How every line that RecordFile writes begins.
std::string line_start() { return fmt::format(R"({{"schema":"{}")", kRecordSchema); }

// What a kill leaves of a line: a beginning of a record.
bool is_torn(const std::string& line) {
  const std::string start = line_start();
  return line.starts_with(start) || start.starts_with(line);
}

}  // namespace

RecordFile::RecordFile(const std::filesystem::path& file) : path_(file) {
  if (file.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(file.parent_path(), error);
    if (error) {
      throw UsageError(
          fmt::format("{}: cannot create its folder: {}", file.string(), error.message()));
    }
  }
  descriptor_ = open(file.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(file, "open it for appending");
}

RecordFile::~RecordFile() { close(descriptor_); }

void RecordFile::append(const nlohmann::ordered_json& record) {
  // Bytes of an argument or a message that are not UTF-8 must not cost the record.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  std::string line = record.dump(-1, ' ', false, kReplace) + "\n";
  if (ends_inside_line(descriptor_, path_)) line.insert(line.begin(), '\n');
  for (std::size_t written = 0; written < line.size();) {
    const ssize_t count = write(descriptor_, line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_, "write to it");
    written += static_cast<std::size_t>(count);
  }
  // Pipes and special files have nothing to flush.
  if (fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail(path_, "flush it");
}

std::vector<nlohmann::ordered_json> read_records(const std::filesystem::path& file,
                                                 std::vector<std::string>& warnings) {
  std::ifstream stream(file);
  if (!stream) fail(file, "open it");
  std::vector<nlohmann::ordered_json> records;
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", file.string(), number);
    const auto refuse_depth = [&](int depth, Json::parse_event_t, Json&) {
      if (depth > kDeepest) throw UsageError(where + ": is nested deeper than any record");
      return true;
    };
    // The parser takes a zero byte for the end of its input.
    const bool has_zero = line.find('\0') != std::string::npos;
    Json record =
        has_zero ? Json(Json::value_t::discarded) : Json::parse(line, refuse_depth, false);
    if (record.is_discarded() && is_torn(line)) {
      warnings.push_back(where + ": half-written record left out (the run was interrupted)");
      continue;
    }
    if (record.is_discarded()) throw UsageError(where + ": not JSON");
    const auto schema = record.is_object() ? record.find("schema") : record.end();
    if (!record.is_object() || schema == record.end() || *schema != kRecordSchema) {
      throw UsageError(fmt::format("{}: not an \"{}\" object", where, kRecordSchema));
    }
    records.push_back(std::move(record));
  }
  if (stream.bad()) fail(file, "read it");
  return records;
}

}  // namespace attnlab
