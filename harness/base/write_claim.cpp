#include "harness/base/write_claim.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "harness/base/errors.h"
#include "harness/base/text_file.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// Returns when a process began, 0 if it has ended: the 22nd word of its line in /proc. The second
// word is the name in brackets, which may hold blanks; a Z as the third marks a process that has
// ended, though its parent has not noticed.
unsigned long long start_of(pid_t process) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", process));
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream words(line.substr(name_end + 1));
  std::string state, word;
  words >> state;
  if (state == "Z") return 0;
  for (int i = 4; i < 22; ++i) words >> word;
  unsigned long long start = 0;
  words >> start;
  return start;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string link_at(const fs::path& file) {
  std::error_code error;
  return fs::read_symlink(file, error).string();
}

// Names what Slurm runs here, by words that are the same when Slurm runs it again.
std::string slurm_job() {
  std::vector<std::string> words;
  for (const char* name : {"SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID"}) {
    const char* const value = std::getenv(name);
    words.emplace_back(value == nullptr ? "-" : value);
  }
  return words[1] == "-" ? "" : fmt::format("{}", fmt::join(words, " "));
}

bool is_of_this_machine(const Writer& other, const Writer& self) {
  return !self.boot.empty() && other.boot == self.boot && other.processes == self.processes;
}

std::string to_text(const Writer& writer) {
  const Json json = {{"host", writer.host},           {"boot", writer.boot},
                     {"processes", writer.processes}, {"process", writer.process},
                     {"start", writer.start},         {"job", writer.job}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Returns the writer that a claim names; nothing where there is no claim, or it cannot be read.
std::optional<Writer> read_claim(const fs::path& claim) try {
  const Json json = Json::parse(read_text(claim));
  return Writer{.host = json.at("host"),
                .boot = json.at("boot"),
                .processes = json.at("processes"),
                .process = json.at("process"),
                .start = json.at("start"),
                .job = json.at("job")};
} catch (const UsageError&) {
  return std::nullopt;
} catch (const Json::exception&) {
  return std::nullopt;
}

}  // namespace

Writer this_writer() {
  return {.host = host_name(),
          .boot = first_line("/proc/sys/kernel/random/boot_id"),
          .processes = link_at("/proc/self/ns/pid"),
          .process = getpid(),
          .start = start_of(getpid()),
          .job = slurm_job()};
}

bool has_ended(const Writer& other, const Writer& self) {
  if (is_of_this_machine(other, self)) return start_of(other.process) != other.start;
  return !self.job.empty() && other.job == self.job;
}

WriteClaim::WriteClaim(const fs::path& file) : file_(file), claim_(file.string() + ".writer") {
  const std::optional<Writer> other = read_claim(claim_);
  if (!other || has_ended(*other, self_)) {
    replace_text(claim_, to_text(self_));
    return;
  }
  if (is_of_this_machine(*other, self_)) {
    throw std::runtime_error(fmt::format(
        "{}: another attnlab (process {}) is writing to it: wait until it ends, or name another "
        "file",
        file_.string(), other->process));
  }
  throw std::runtime_error(fmt::format(
      "{}: attnlab on {} (process {}) is writing to it, or was killed there: wait until it ends, "
      "or name another file; where it has ended, remove {}",
      file_.string(), other->host, other->process, claim_.string()));
}

WriteClaim::~WriteClaim() {
  if (read_claim(claim_) == self_) unlink(claim_.c_str());
}

void WriteClaim::check() const {
  const std::optional<Writer> other = read_claim(claim_);
  if (other == self_) return;
  const std::string what =
      other ? fmt::format("attnlab on {} (process {}) took it over", other->host, other->process)
            : fmt::format("{} was removed, so another attnlab may take it", claim_.string());
  throw std::runtime_error(
      fmt::format("{}: {}: this one writes nothing more", file_.string(), what));
}

}  // namespace attnlab
