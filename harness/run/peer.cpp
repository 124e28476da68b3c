#include "harness/run/peer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "harness/base/errors.h"
#include "harness/plan/accounting.h"
#include "harness/plan/peer_names.h"

namespace attnlab {
namespace {

using Kind = PeerError::Kind;

// What an answer says under a key. A peer that answers otherwise has another idea of the protocol.
template <class T>
T get(const nlohmann::json& answer, const char* key) try {
  return answer.at(key).get<T>();
} catch (const nlohmann::json::exception&) {
  throw PeerError(Kind::error, fmt::format("the peer's answer has no proper '{}': {}", key,
                                           answer.dump().substr(0, 200)));
}

ExecutedKernel kernel_of(const nlohmann::json& entry) {
  using Extent = std::array<std::uint32_t, 3>;
  ExecutedKernel kernel{.symbol = get<std::string>(entry, "symbol"), .grid = {}, .block = {}};
  kernel.launches = get<int>(entry, "launches");
  if (entry.contains("seconds")) kernel.seconds = get<double>(entry, "seconds");
  if (!entry.contains("grid")) return kernel;
  std::ranges::copy(get<Extent>(entry, "grid"), kernel.grid);
  std::ranges::copy(get<Extent>(entry, "block"), kernel.block);
  kernel.registers = get<int>(entry, "registers");
  kernel.shared_bytes = get<std::uint64_t>(entry, "shared_bytes");
  return kernel;
}

}  // namespace

PeerInputs::PeerInputs(const Problem& problem, const Tensors& tensors)
    : problem_(problem),
      // q, k, v, dO and o, dQ, dK, dV, and room for both sides to write anew what is there.
      folder_(8 * (bytes_like_q(problem) + bytes_like_k(problem))) {
  const Tensors inputs = {.q = tensors.q,
                          .k = tensors.k,
                          .v = tensors.v,
                          .dout = tensors.dout,
                          .block_pattern = tensors.block_pattern};
  write_safetensors(file(), view_tensors(problem, inputs),
                    to_metadata({.problem = problem, .kernel = "", .config = ""}));
}

PeerOutputs::PeerOutputs(const Problem& problem, const std::filesystem::path& file) try
    : file_(read_safetensors(file)) {
  const bool has_o = problem.pass != Pass::bwd;
  const bool has_gradients = problem.pass != Pass::fwd;
  // What should be there, as views of nothing.
  std::byte nothing{};
  Tensors wanted;
  if (has_o) wanted.o = &nothing;
  if (has_gradients) wanted.dq = wanted.dk = wanted.dv = &nothing;
  for (const auto& [name, want] : view_tensors(problem, wanted)) {
    const auto got = file_.tensors.find(name);
    if (got == file_.tensors.end() || got->second.dtype != want.dtype ||
        got->second.shape != want.shape) {
      throw PeerError(Kind::error, fmt::format("the peer's outputs have no {} of {} [{}]", name,
                                               want.dtype, fmt::join(want.shape, ", ")));
    }
  }
} catch (const UsageError& error) {
  throw PeerError(Kind::error, fmt::format("the peer's outputs: {}", error.what()));
}

Tensors PeerOutputs::attach(Tensors tensors) const {
  const auto data = [&](const char* name) -> void* {
    const auto view = file_.tensors.find(name);
    // The bytes are this object's own and not const.
    return view == file_.tensors.end() ? nullptr
                                       : const_cast<std::byte*>(view->second.bytes.data());
  };
  tensors.o = data("o");
  tensors.lse = nullptr;
  tensors.dq = data("dq");
  tensors.dk = data("dk");
  tensors.dv = data("dv");
  return tensors;
}

TorchPeer::TorchPeer(PeerProcess& process, std::string name, Device device)
    : process_(process), name_(std::move(name)), device_(std::move(device)) {}

TorchPeer::~TorchPeer() { release(); }

PeerOutputs TorchPeer::prepare(const PeerInputs& inputs, const PeerSettings& settings) {
  release();
  const bool is_cuda = device_.backend == Backend::cuda;
  const auto answer = process_.call(
      {{"call", "prepare"},
       {"backend", std::string(peer_backend(name_))},
       {"device", is_cuda ? fmt::format("cuda:{}", device_.ordinal) : std::string("cpu")},
       {"threads", device_.threads},
       {"tf32", settings.tf32},
       {"sets", settings.input_sets},
       {"input", inputs.file().string()},
       {"output", inputs.output_file().string()}});
  handle_ = get<int>(answer, "handle");
  generation_ = process_.generation();
  inputs_ = &inputs;
  launch_cost_was_hidden_ = true;
  kernels_.clear();
  for (const auto& entry : get<nlohmann::json::array_t>(answer, "kernels")) {
    kernels_.push_back(kernel_of(entry));
  }
  peak_bytes_.reset();
  if (answer.contains("peak_bytes") && !answer["peak_bytes"].is_null()) {
    peak_bytes_ = get<std::uint64_t>(answer, "peak_bytes");
  }
  return PeerOutputs(inputs.problem(), inputs.output_file());
}

void TorchPeer::warm_up(std::uint64_t bytes) { call({{"call", "warm_up"}, {"bytes", bytes}}); }

double TorchPeer::seconds_of(int launches) {
  const auto answer = call({{"call", "time"}, {"launches", launches}});
  if (!get<bool>(answer, "launch_cost_hidden")) launch_cost_was_hidden_ = false;
  return get<double>(answer, "seconds");
}

PeerOutputs TorchPeer::outputs() {
  call({{"call", "outputs"}, {"output", inputs_->output_file().string()}});
  return PeerOutputs(inputs_->problem(), inputs_->output_file());
}

void TorchPeer::release() noexcept {
  if (inputs_ == nullptr) return;
  inputs_ = nullptr;
  if (!process_.runs(generation_)) return;  // gone with its process
  try {
    process_.call({{"call", "release"}, {"handle", handle_}});
  } catch (const std::exception&) {  // then it holds nothing any more
  }
}

std::string TorchPeer::version() {
  return fmt::format("torch {}", get<std::string>(process_.hello(), "torch"));
}

nlohmann::json TorchPeer::call(nlohmann::json request) {
  if (inputs_ == nullptr || !process_.runs(generation_)) {
    throw PeerError(Kind::lost, name_ + " is not prepared, or its process ended since");
  }
  request["handle"] = handle_;
  return process_.call(std::move(request));
}

}  // namespace attnlab
