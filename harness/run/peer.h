// Makes the attention of another library a competitor of our kernels, in a process of its own.
//
//   PeerProcess process;                               // one for a library in a run
//   PeerInputs inputs(problem, host_tensors);          // one for a case
//   LibraryPeer peer(process, "torch:flash", device);  // one for a competitor
//   PeerOutputs first = peer.prepare(inputs);          // to be judged
//   peer.seconds_of(20) ...                            // in turns with ours
//   PeerOutputs last = peer.outputs();                 // to be judged again
//
// The peer uses the device only inside these calls and has synchronised when they return. All throw
// PeerError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/exchange_folder.h"
#include "harness/run/peer_process.h"
#include "harness/tensors/safetensors.h"
#include "kernels/api/counters.h"
#include "kernels/api/device.h"
#include "kernels/api/problem.h"
#include "kernels/api/runtime.h"
#include "kernels/api/tensors.h"
#include "reference/device_array.h"

namespace attnlab {

// This holds the inputs of a case for all peers. They lie in a file, or in memory of a device that
// peers open and copy from, which saves a copy through the host (results/nvidia-h100/README.md has
// what that costs). Of e4m3 they are the codes, those of V as V lies, and what makes values of
// them: q_descale, k_descale and v_descale, F32 [batch, num_heads_kv], always in the file.
class PeerInputs {
 public:
  // `host` lie in memory of this process; outputs among them are not used. Of e4m3 the problem is
  // one that unsupported_by_peer() lets a function have.
  PeerInputs(const Problem& problem, const Tensors& host);
  // `tensors` are the same in memory of `runtime`, which peers are offered where it can be shared.
  // All outlive the object.
  PeerInputs(const Problem& problem, const Tensors& host, const Tensors& tensors, Runtime& runtime);

  const Problem& problem() const { return problem_; }
  // This file says what the problem is, and holds the tensors where they are not shared.
  std::filesystem::path file() const { return folder_.path() / "inputs.safetensors"; }
  std::filesystem::path output_file() const { return folder_.path() / "outputs.safetensors"; }

  // Returns the runtime whose memory peers open; null: they take files.
  Runtime* shared_runtime() const { return runtime_; }
  // Says where the tensors lie there, as share_tensors() does.
  const nlohmann::json& shared() const { return shared_; }
  // Writes the tensors to the file too, because a peer cannot open the memory.
  void stop_sharing();

 private:
  // Writes the file, with these of the inputs in it.
  void write(TensorViews views) const;

  Problem problem_;
  Tensors host_;  // nothing but inputs
  std::map<std::string, std::vector<float>> descales_;
  ExchangeFolder folder_;
  Runtime* runtime_ = nullptr;
  nlohmann::json shared_;
};

// Returns {"q": {"dtype": "BF16", "shape": [...], "handle": "c0ff...", "offset": 0}, ...} for a
// peer to open; null where one of them cannot be shared. The bytes of `tensors` are memory of
// `runtime`.
nlohmann::json share_tensors(const TensorViews& tensors, Runtime& runtime);

// This holds what a pass writes, in the problem's layout and dtype: o of fwd; dq, dk, dv of bwd;
// all four of fwdbwd; with o also lse, of a peer that gives it.
class PeerOutputs {
 public:
  // Reads them from a file. Throws PeerError where it lacks one or has it in another shape or
  // dtype.
  PeerOutputs(const Problem& problem, const std::filesystem::path& file);
  // Takes memory of `runtime` for them, lse among them, and fills it with NaN, which a peer must
  // overwrite. Throws std::bad_alloc.
  PeerOutputs(const Problem& problem, Runtime& runtime);

  // Leaves lse out, of a peer that gave none.
  void drop_lse() { tensors_.lse = nullptr; }

  // Returns the runtime whose memory holds them.
  Runtime& runtime() const { return *runtime_; }
  TensorViews views() const { return view_tensors(problem_, tensors_); }

  // Returns `tensors` with these in place of its outputs.
  Tensors attach(Tensors tensors) const;

 private:
  Problem problem_;
  Runtime* runtime_;
  SafetensorsFile file_;
  std::vector<reference::DeviceArray<std::byte>> memory_;
  Tensors tensors_;  // nothing but these outputs
};

struct PeerSettings {
  bool tf32 = false;   // f32 products of torch:eager and torch:math may use TF32
  int input_sets = 1;  // copies of the inputs that launches rotate through, for cold caches
};

class LibraryPeer {
 public:
  // `name` comes from parse_peers(). The process must outlive the object.
  LibraryPeer(PeerProcess& process, std::string name, Device device);
  ~LibraryPeer();
  LibraryPeer(const LibraryPeer&) = delete;
  LibraryPeer& operator=(const LibraryPeer&) = delete;

  // Runs the pass once; what it returns has no dropout, since libraries draw masks of their own.
  // `inputs` must live until release(); they are not shared any more where the peer cannot open
  // them. Prepares anew if it was prepared.
  PeerOutputs prepare(PeerInputs& inputs, const PeerSettings& settings = {});

  // Writes so many bytes of its own and launches once, untimed: caches are then as they are for a
  // competitor whose outputs are filled before a sample.
  void warm_up(std::uint64_t bytes);

  // Queues the launches without timing them; returns the seconds until they are done, what the host
  // needs included.
  double load(int launches);

  // Returns the time of all launches together, on a GPU without the launch cost. They are queued
  // while the GPU is busy: with a kernel that sleeps, or with further launches.
  enum class Behind : std::uint8_t { sleep, launches };
  double seconds_of(int launches, Behind behind = Behind::sleep);
  // Counts these further launches, of all calls since prepare().
  int launches_ahead() const { return launches_ahead_; }
  // Returns whether each seconds_of() since prepare() left that out entirely; true on the CPU.
  bool launch_cost_was_hidden() const { return launch_cost_was_hidden_; }

  // Returns what the last timed launch left. It may lack an lse that prepare() has: a forward that
  // is timed leaves it out if it can. With dropout another launch made it.
  PeerOutputs outputs();

  // Gives the peer's memory back. Does nothing if it is not prepared.
  void release() noexcept;

  // Lists what the pass ran, once it is prepared. On a CPU these are PyTorch's operators, which
  // have no shape: grid and block are 0.
  const std::vector<ExecutedKernel>& kernels() const { return kernels_; }
  // Returns its peak above the inputs: outputs and what a forward left, no masks. Not on the CPU.
  std::optional<std::uint64_t> peak_bytes() const { return peak_bytes_; }

  // Says which of its ways the library chose, in its words; "": it does not say.
  const std::string& plan() const { return plan_; }

  // Names the library's version once it is prepared: "torch 2.11.0+cu130".
  const std::string& version() const { return version_; }

 private:
  // Prepares, and does not fall back to files.
  PeerOutputs try_to_prepare(const PeerInputs& inputs, const PeerSettings& settings);
  // Returns `request` with the handle of what is prepared.
  nlohmann::json addressed(nlohmann::json request) const;
  nlohmann::json call(nlohmann::json request);

  PeerProcess& process_;
  std::string name_;
  Device device_;
  const PeerInputs* inputs_ = nullptr;  // null: not prepared
  int handle_ = 0;
  int generation_ = 0;  // of the process that has the handle
  bool launch_cost_was_hidden_ = true;
  int launches_ahead_ = 0;
  std::vector<ExecutedKernel> kernels_;
  std::optional<std::uint64_t> peak_bytes_;
  std::string plan_, version_;
};

}  // namespace attnlab
