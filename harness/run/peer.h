// PyTorch's attention as a competitor of our kernels, in a process of its own.
//
//   PeerProcess process;                               // one for a run
//   PeerInputs inputs(problem, host_tensors);          // one for a case
//   TorchPeer peer(process, "torch:flash", device);    // one for a competitor
//   PeerOutputs first = peer.prepare(inputs);          // to be judged
//   peer.seconds_of(20) ...                            // in turns with ours
//   PeerOutputs last = peer.outputs();                 // to be judged again
//
// The peer uses the device only inside these calls and has synchronised when they return. All throw
// PeerError.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/exchange_folder.h"
#include "harness/run/peer_process.h"
#include "harness/tensors/safetensors.h"
#include "kernels/api/counters.h"
#include "kernels/api/device.h"
#include "kernels/api/problem.h"
#include "kernels/api/tensors.h"

namespace attnlab {

// The inputs of a case in a file, for all peers; gone with the object. `tensors` are on the host;
// its outputs are not looked at.
class PeerInputs {
 public:
  PeerInputs(const Problem& problem, const Tensors& tensors);

  const Problem& problem() const { return problem_; }
  std::filesystem::path file() const { return folder_.path() / "inputs.safetensors"; }
  std::filesystem::path output_file() const { return folder_.path() / "outputs.safetensors"; }

 private:
  Problem problem_;
  ExchangeFolder folder_;
};

// What a pass writes, on the host, in the problem's layout and dtype: o of fwd; dq, dk, dv of bwd;
// all four of fwdbwd. There is no lse.
class PeerOutputs {
 public:
  // Throws PeerError where the file lacks one or has it in another shape or dtype.
  PeerOutputs(const Problem& problem, const std::filesystem::path& file);

  // `tensors` with these in place of its outputs.
  Tensors attach(Tensors tensors) const;

 private:
  SafetensorsFile file_;
};

struct PeerSettings {
  bool tf32 = false;   // f32 products of torch:eager and torch:math may use TF32
  int input_sets = 1;  // copies of the inputs that launches go through in turn, for cold caches
};

class TorchPeer {
 public:
  // `name`: of parse_peers(). The process must outlive the object.
  TorchPeer(PeerProcess& process, std::string name, Device device);
  ~TorchPeer();
  TorchPeer(const TorchPeer&) = delete;
  TorchPeer& operator=(const TorchPeer&) = delete;

  // Runs the pass once; what it returns has no dropout, since PyTorch draws masks of its own.
  // `inputs` must live until release(). Prepares anew if it was prepared.
  PeerOutputs prepare(const PeerInputs& inputs, const PeerSettings& settings = {});

  // Writes so many bytes of its own and launches once, untimed: caches are then as they are for a
  // competitor whose outputs are filled before a sample.
  void warm_up(std::uint64_t bytes);

  // All launches together, launch cost left out on a GPU.
  double seconds_of(int launches);
  // Whether every seconds_of() since prepare() could leave out all of it; true on the CPU.
  bool launch_cost_was_hidden() const { return launch_cost_was_hidden_; }

  // Of the last timed launch; with dropout, of another one without it.
  PeerOutputs outputs();

  // Gives the peer's memory back. Nothing if it is not prepared.
  void release() noexcept;

  // Of a prepared one: what the pass ran. On the CPU PyTorch's operators, which have no shape: grid
  // and block are 0.
  const std::vector<ExecutedKernel>& kernels() const { return kernels_; }
  // Above the inputs, while it ran: what its forward left, outputs, masks apart. Not on the CPU.
  std::optional<std::uint64_t> peak_bytes() const { return peak_bytes_; }

  // "torch 2.11.0+cu130"
  std::string version();

 private:
  nlohmann::json call(nlohmann::json request);

  PeerProcess& process_;
  std::string name_;
  Device device_;
  const PeerInputs* inputs_ = nullptr;  // null: not prepared
  int handle_ = 0;
  int generation_ = 0;  // of the process that has the handle
  bool launch_cost_was_hidden_ = true;
  std::vector<ExecutedKernel> kernels_;
  std::optional<std::uint64_t> peak_bytes_;
};

}  // namespace attnlab
