#include "harness/record/record_file.h"

// Writes record files: JSON lines, appended so that a kill costs at most the last line.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "harness/base/errors.h"
#include "harness/base/file_lock.h"
#include "harness/base/strict_json.h"
#include "harness/record/record.h"
#include "harness/record/record_values.h"

namespace attnlab {

namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::filesystem::path& file, const char* action) {
  throw UsageError(fmt::format("{}: cannot {}: {}", file.string(), action, std::strerror(errno)));
}

// Returns whether the path leads to another file than the open one by now.
bool is_replaced(int descriptor, const std::filesystem::path& file) {
  struct stat own {
  }, there{};
  if (fstat(descriptor, &own) != 0) fail(file, "look at it");
  if (!S_ISREG(own.st_mode)) return false;
  return stat(file.c_str(), &there) != 0 || own.st_dev != there.st_dev ||
         own.st_ino != there.st_ino;
}

// Returns how every line that RecordFile writes begins.
std::string line_start() { return fmt::format(R"({{"schema":"{}")", kRecordSchema); }

// Returns whether a line is what a kill leaves: a beginning of a record. A power cut may leave zero
// bytes where the rest, or all of it, had room already; JSON never holds one.
bool is_torn(const std::string& line) {
  const std::string start = line_start();
  const std::string text = line.substr(0, line.find('\0'));
  return text.starts_with(start) || start.starts_with(text);
}

enum class LineKind { blank, torn, record };

// Returns the kind of a line, given without its end; a record goes to `record`. Throws UsageError,
// led by `where`, for anything else.
LineKind parse_line(const std::string& line, const std::string& where, Json& record) {
  constexpr int kDeepest = 64;
  if (line.find_first_not_of(" \t\r") == std::string::npos) return LineKind::blank;
  if (line.find('\0') != std::string::npos && is_torn(line)) return LineKind::torn;
  try {
    record = parse_strict_json(line, kDeepest, where);
  } catch (const Json::exception&) {
    if (is_torn(line)) return LineKind::torn;
    throw UsageError(where + ": not JSON");
  }
  const auto schema = record.is_object() ? record.find("schema") : record.end();
  if (!record.is_object() || schema == record.end() || *schema != kRecordSchema) {
    throw UsageError(fmt::format("{}: not an \"{}\" object", where, kRecordSchema));
  }
  return LineKind::record;
}

void check_values(const Json& record, const std::string& where) {
  const std::string why = wrong_value(record);
  if (!why.empty()) throw UsageError(fmt::format("{}: {}", where, why));
}

// Reads an open file from its end.
class Backwards {
 public:
  Backwards(int descriptor, const std::filesystem::path& file)
      : descriptor_(descriptor), file_(file) {}

  // Returns the offset behind the last byte before `end` that `wanted` accepts; 0 if there is none.
  template <class Wanted>
  off_t find_before(off_t end, Wanted wanted) const {
    std::array<char, 4096> chunk;
    while (end > 0) {
      const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(chunk.size()));
      read(begin, end, chunk.data());
      for (off_t i = end; i > begin; --i) {
        if (wanted(chunk[static_cast<std::size_t>(i - begin - 1)])) return i;
      }
      end = begin;
    }
    return 0;
  }

  std::string text(off_t begin, off_t end) const {
    std::string text(static_cast<std::size_t>(end - begin), '\0');
    read(begin, end, text.data());
    return text;
  }

 private:
  void read(off_t begin, off_t end, char* to) const {
    while (begin < end) {
      const ssize_t count = pread(descriptor_, to, static_cast<std::size_t>(end - begin), begin);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fail(file_, "read its end");
      begin += count;
      to += count;
    }
  }

  int descriptor_;
  std::filesystem::path file_;
};

// Says how much of the file is whole lines.
struct Whole {
  off_t bytes = 0;
  bool lacks_newline = false;  // the last line is all there but for its end
};

Whole find_whole(int descriptor, off_t size, const std::filesystem::path& file) {
  const Backwards tail(descriptor, file);
  const auto is_newline = [](char c) { return c == '\n'; };
  const auto is_text = [](char c) { return c != '\0'; };
  std::optional<Whole> blank_end;  // behind what is looked at there are only blank lines
  for (off_t end = size; end > 0;) {
    const off_t text_end = tail.find_before(end, is_text);
    if (text_end == 0) break;
    const bool lacks_newline = tail.text(text_end - 1, text_end) != "\n";
    // Only one of the zero bytes behind an open line is read: it tells as much as all of them.
    const off_t line_end = lacks_newline ? std::min(text_end + 1, end) : text_end - 1;
    const off_t begin = tail.find_before(text_end - (lacks_newline ? 0 : 1), is_newline);
    Json record;
    const LineKind kind =
        parse_line(tail.text(begin, line_end), file.string() + ": its last line", record);
    const Whole here = {text_end, lacks_newline};
    if (kind == LineKind::record) return blank_end.value_or(here);
    if (kind == LineKind::torn) blank_end.reset();
    if (kind == LineKind::blank && !blank_end) blank_end = here;
    end = begin;
  }
  return blank_end.value_or(Whole{});
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
  try {
    take();
  } catch (...) {
    if (descriptor_ >= 0) close(descriptor_);
    throw;
  }
}

RecordFile::~RecordFile() {
  claim_.reset();  // goes while the lock still keeps others from finding it
  close(descriptor_);
}

void RecordFile::take() {
  // A file that is replaced between opening and locking would lose what is written to it.
  do {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail(path_, "open it for appending");
    lock_for_writing(descriptor_, path_);
  } while (is_replaced(descriptor_, path_));
  if (!is_locked_for_sure(descriptor_)) claim_.emplace(path_);
}

void RecordFile::check_claim() const {
  if (claim_) claim_->check();
}

std::string RecordFile::repair() {
  check_claim();
  repaired_ = true;
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail(path_, "look at it");
  if (!S_ISREG(status.st_mode)) return "";
  Whole whole;
  try {
    whole = find_whole(descriptor_, status.st_size, path_);
  } catch (const UsageError& error) {
    throw UsageError(
        fmt::format("{}: this is no file to append records to: name another", error.what()));
  }
  const off_t torn = status.st_size - whole.bytes;
  if (torn == 0 && !whole.lacks_newline) return "";
  if (ftruncate(descriptor_, whole.bytes) != 0) fail(path_, "cut off its torn end");
  if (whole.lacks_newline) write_all("\n");
  flush();
  if (torn == 0) {
    return fmt::format("{}: ended its last line, whose newline was missing", path_.string());
  }
  return fmt::format(
      "{}: removed its last {} byte{}, which were no whole record (a run was killed)",
      path_.string(), torn, torn == 1 ? "" : "s");
}

void RecordFile::append(const std::vector<nlohmann::ordered_json>& records) {
  check_claim();
  if (!repaired_) repair();
  // Bytes of an argument or a message that are not UTF-8 must not cost the record.
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  std::string lines;
  for (const auto& record : records) lines += record.dump(-1, ' ', false, kReplace) + "\n";
  const off_t end = lseek(descriptor_, 0, SEEK_END);
  try {
    write_all(lines);
    flush();
  } catch (const UsageError& error) {
    std::string what = error.what();
    if (end >= 0 && ftruncate(descriptor_, end) != 0) what += ", and its torn end is still there";
    throw NotSaved(what);
  }
}

void RecordFile::write_all(const std::string& text) {
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t count = write(descriptor_, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_, "write to it");
    written += static_cast<std::size_t>(count);
  }
}

void RecordFile::flush() {
  // Pipes and special files have nothing to flush.
  if (fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail(path_, "flush it");
}

std::vector<nlohmann::ordered_json> read_records(const std::filesystem::path& file,
                                                 std::vector<std::string>& warnings) {
  std::ifstream stream(file);
  if (!stream) fail(file, "open it");
  std::vector<nlohmann::ordered_json> records;
  std::string line;
  std::vector<std::string> torn;  // where lines are that nothing whole has followed yet
  for (int number = 1; std::getline(stream, line); ++number) {
    const std::string where = fmt::format("{}:{}", file.string(), number);
    Json record;
    LineKind kind = LineKind::blank;
    try {
      kind = parse_line(line, where, record);
      if (kind == LineKind::record) check_values(record, where);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: correct it, or take the line out", error.what()));
    }
    if (kind == LineKind::torn) torn.push_back(where);
    if (kind != LineKind::record) continue;
    if (!torn.empty()) {
      throw UsageError(fmt::format(
          "{}: is damaged, and only the last line may be, by a crash: take the line out (attnlab "
          "run --resume runs its point again)",
          torn.front()));
    }
    records.push_back(std::move(record));
  }
  if (stream.bad()) fail(file, "read it");
  for (const std::string& where : torn) {
    warnings.push_back(where + ": half-written record left out (the run was interrupted)");
  }
  return records;
}

}  // namespace attnlab
