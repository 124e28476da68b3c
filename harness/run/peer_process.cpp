#include "harness/run/peer_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "harness/base/shipped.h"

namespace attnlab {
namespace {

using Kind = PeerError::Kind;

constexpr int kProtocol = 7;
constexpr const char* kScript = "peer.py";
constexpr double kGraceSeconds = 2.0;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Shipped find_script() {
  if (const std::string folder = environment("ATTNLAB_PEER_DIR"); !folder.empty()) {
    return {.path = std::filesystem::path(folder) / kScript};
  }
  return find_shipped_among_modules(std::filesystem::path("scripts/peers") / kScript);
}

// Finds the Python: for "py:FILE" $ATTNLAB_PYTHON_PY, else $ATTNLAB_PYTHON, else python3.
std::string find_python(const std::string& library) {
  std::string own = "ATTNLAB_PYTHON_" + library.substr(0, library.find(':'));
  std::ranges::transform(own, own.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const std::string& name : {own, std::string("ATTNLAB_PYTHON")}) {
    if (std::string python = environment(name.c_str()); !python.empty()) return python;
  }
  return "python3";
}

// Indents the words, so that they are told apart from our own.
std::string last_words(const std::string& errors) {
  std::string text;
  for (const char c : errors) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.pop_back();
  return text.empty() ? "" : "; its last words:\n  " + text;
}

// Throws what the answer says went wrong.
void check(const nlohmann::json& answer, const std::string& call) {
  for (const auto& [kind, key] : {std::pair(Kind::unsupported, "unsupported"),
                                  {Kind::out_of_memory, "out_of_memory"},
                                  {Kind::no_access, "no_access"},
                                  {Kind::error, "error"}}) {
    const auto said = answer.find(key);
    if (said == answer.end()) continue;
    const std::string text = said->is_string() ? said->get<std::string>() : said->dump();
    throw PeerError(kind,
                    kind == Kind::error ? fmt::format("the peer's {}: {}", call, text) : text);
  }
}

}  // namespace

PeerProcess::PeerProcess(PeerOptions options) : options_(std::move(options)) {
  if (options_.python.empty()) options_.python = find_python(options_.library);
  if (!options_.script.empty()) return;
  const Shipped found = find_script();
  options_.script = found.path;
  if (found.refused.empty() || !found.path.empty()) return;
  unusable_ = fmt::format(
      "the peer's script is not run: {}. Take that away from them, or name the folder of {} in "
      "ATTNLAB_PEER_DIR",
      found.refused, kScript);
}

PeerProcess::~PeerProcess() { stop(); }

const nlohmann::json& PeerProcess::hello() {
  if (!unusable_.empty()) throw PeerError(Kind::unsupported, unusable_);
  if (child_ == nullptr) start();
  return hello_;
}

nlohmann::json PeerProcess::call(nlohmann::json request) {
  return call(std::move(request), options_.call_timeout_s);
}

nlohmann::json PeerProcess::call(nlohmann::json request, double timeout_s) {
  hello();
  return exchange(std::move(request), timeout_s);
}

void PeerProcess::stop() {
  if (child_ == nullptr) return;
  child_->write_line(R"({"id": 0, "call": "quit"})");
  child_->end(kGraceSeconds);
  child_.reset();
}

void PeerProcess::start() {
  try {
    if (std::error_code error; !std::filesystem::exists(options_.script, error)) {
      throw PeerError(Kind::unsupported,
                      fmt::format("the peer's script {} is not there: set ATTNLAB_PEER_DIR to "
                                  "scripts/peers of the sources",
                                  options_.script.empty() ? kScript : options_.script.string()));
    }
    try {
      child_ = std::make_unique<ChildProcess>(
          std::vector<std::string>{options_.python, options_.script.string(), options_.library});
    } catch (const std::system_error& error) {
      throw PeerError(Kind::unsupported,
                      fmt::format("cannot start {}: {}; install Python 3 with PyTorch (pip install "
                                  "torch), or set ATTNLAB_PYTHON to one",
                                  options_.python, error.code().message()));
    }
    ++generation_;
    hello_ = exchange({{"call", "hello"}}, options_.start_timeout_s);
    if (hello_.value("protocol", nlohmann::json()) != kProtocol) {
      throw PeerError(Kind::unsupported,
                      fmt::format("{} speaks another protocol than this program: set "
                                  "ATTNLAB_PEER_DIR to scripts/peers of the same version",
                                  options_.script.string()));
    }
  } catch (const PeerError& error) {  // another process would fail alike
    stop();
    unusable_ = error.what();
    throw PeerError(Kind::unsupported, unusable_);
  }
}

nlohmann::json PeerProcess::exchange(nlohmann::json request, double timeout_s) {
  const std::string call = request.at("call").get<std::string>();
  request["id"] = ++last_id_;
  std::string line;
  auto outcome = ChildProcess::Outcome::end;
  using Handler = nlohmann::json::error_handler_t;
  if (child_->write_line(request.dump(-1, ' ', false, Handler::replace))) {
    outcome = child_->read_line(timeout_s, line);
  }
  if (outcome == ChildProcess::Outcome::timeout) {
    lose(call, fmt::format("did not answer within {:g} s and was ended", timeout_s));
  }
  if (outcome == ChildProcess::Outcome::end) lose(call, "");
  const auto answer = nlohmann::json::parse(line, nullptr, false);
  if (!answer.is_object() || answer.value("id", nlohmann::json()) != last_id_) {
    constexpr std::size_t kShown = 100;
    lose(call, fmt::format("answered '{}{}', which is none, and was ended", line.substr(0, kShown),
                           line.size() > kShown ? "..." : ""));
  }
  try {
    check(answer, call);
  } catch (const PeerError& error) {
    if (answer.contains("fatal")) lose(call, fmt::format("gave up ({})", error.what()));
    throw;
  }
  return answer;
}

void PeerProcess::lose(const std::string& call, const std::string& what) {
  // A process that closed its end is about to go: what it says then is worth a moment.
  const std::string ending = child_->end(what.empty() ? kGraceSeconds : 0.0);
  const std::string said = what.empty() ? "died (" + ending + ")" : what;
  const std::string words = last_words(child_->errors());
  child_.reset();
  throw PeerError(Kind::lost, fmt::format("the peer {} {} {}{}", options_.library, said,
                                          "in its call '" + call + "'", words));
}

PeerProcess& PeerProcesses::of(const std::string& library) {
  const auto found = processes_.find(library);
  if (found != processes_.end()) return found->second;
  PeerOptions options = options_;
  options.library = library;
  return processes_.try_emplace(library, std::move(options)).first->second;
}

}  // namespace attnlab
