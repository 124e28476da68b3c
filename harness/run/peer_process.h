// Runs the process that a library of peers lives in, and speaks its protocol: a line of JSON there,
// a line back (scripts/peers/peer.py documents the calls). One process serves all backends and
// points of a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/base/child_process.h"

namespace attnlab {

class PeerError : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t {
    unsupported,    // the peer cannot do this, or is not there at all
    out_of_memory,  // of the peer
    error,          // it failed, and goes on
    no_access,      // it cannot open memory that it was offered: hand it files
    lost,           // it died, hung or spoke nonsense; what it had prepared is gone
  };
  PeerError(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

struct PeerOptions {
  std::string library = "torch";  // as split_peer() has it: the script's argument
  std::string python;  // "": $ATTNLAB_PYTHON_LIBRARY, else $ATTNLAB_PYTHON, else python3 from PATH
  std::filesystem::path script;    // "": peer.py in $ATTNLAB_PEER_DIR, else beside the sources
  double start_timeout_s = 180.0;  // importing PyTorch from a cold disk takes a minute
  double call_timeout_s = 300.0;
};

class PeerProcess {
 public:
  explicit PeerProcess(PeerOptions options = {});
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // Returns what the peer says of itself: version (of its library), devices. Starts it if needed.
  // Throws PeerError: `unsupported` with the remedy where it cannot be started at all, and from
  // then on always, without another try.
  const nlohmann::json& hello();

  // Returns the answer to a request, which names its "call". Starts the process if it does not run.
  // Throws PeerError; after `lost` the process is gone and the next call starts another.
  nlohmann::json call(nlohmann::json request);
  nlohmann::json call(nlohmann::json request, double timeout_s);

  // Returns the number of the process that runs now, or ran last.
  int generation() const { return generation_; }
  // Returns whether that one still runs, with all that was prepared in it.
  bool runs(int generation) const { return child_ != nullptr && generation == generation_; }

  // Ends it, if it runs, so that it holds no memory.
  void stop();

 private:
  void start();
  nlohmann::json exchange(nlohmann::json request, double timeout_s);
  // Ends the process and throws; `what` says what it did wrong.
  [[noreturn]] void lose(const std::string& call, const std::string& what);

  PeerOptions options_;
  std::unique_ptr<ChildProcess> child_;  // null: none runs
  nlohmann::json hello_;
  std::string unusable_;  // why it cannot be started; "": nothing known
  std::int64_t last_id_ = 0;
  int generation_ = 0;
};

// Holds the processes of a run, one a library.
class PeerProcesses {
 public:
  // `options` hold for all of them, but for the library.
  explicit PeerProcesses(PeerOptions options = {}) : options_(std::move(options)) {}

  // Returns the process of a library, as split_peer() has it. It lives as long as this object.
  PeerProcess& of(const std::string& library);

 private:
  PeerOptions options_;
  std::map<std::string, PeerProcess> processes_;
};

}  // namespace attnlab
