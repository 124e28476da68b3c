#include "harness/run/peer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "harness/base/errors.h"
#include "harness/plan/accounting.h"
#include "harness/plan/peer_names.h"
#include "harness/tensors/arena.h"
#include "kernels/api/quantise.h"

namespace attnlab {
namespace {

using Kind = PeerError::Kind;

// Reads a key of an answer. If it is not there, the peer has another idea of the protocol.
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

Tensors inputs_of(const Tensors& tensors) {
  return {.q = tensors.q,
          .k = tensors.k,
          .v = tensors.v,
          .dout = tensors.dout,
          .e4m3 = tensors.e4m3,
          .cu_seqlens_q = tensors.cu_seqlens_q,
          .cu_seqlens_k = tensors.cu_seqlens_k,
          .block_pattern = tensors.block_pattern};
}

// Views inputs as peers get them: of e4m3 the codes stand where the numbers were that they are of.
TensorViews view_inputs(const Problem& problem, const Tensors& tensors) {
  if (!problem.is_e4m3()) return view_tensors(problem, tensors);
  Tensors codes = tensors;
  codes.q = tensors.e4m3.q;
  codes.k = tensors.e4m3.k;
  codes.v = tensors.e4m3.v;
  TensorViews views = view_tensors(problem, codes);
  for (const char* name : {"q", "k", "v"}) {
    const auto found = views.find(name);
    if (found == views.end()) continue;
    TensorView& view = found->second;
    view.dtype = safetensors_dtype(Dtype::e4m3);
    view.bytes = view.bytes.first(tensor_bytes(view.dtype, view.shape, name));
  }
  return views;
}

// Returns one scale for each K/V head of an entry, out of those of blocks, which repeat it.
std::vector<float> scales_of_heads(const Problem& problem, const float* scales,
                                   std::int64_t elements, std::int64_t heads) {
  std::vector<float> result;
  const std::int64_t blocks = elements / (problem.batch * heads);
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t h = 0; h < problem.num_heads_kv; ++h) {
      const std::int64_t head = b * heads + h * (heads / problem.num_heads_kv);
      result.push_back(scales[head * blocks]);
    }
  }
  return result;
}

// Returns what peers multiply the codes with; nothing of other types.
std::map<std::string, std::vector<float>> descales_of(const Problem& problem,
                                                      const E4m3Inputs& inputs) {
  if (!problem.is_e4m3()) return {};
  return {
      {"q_descale",
       scales_of_heads(problem, inputs.scale_q, elements_scale_q(problem), problem.num_heads_q)},
      {"k_descale",
       scales_of_heads(problem, inputs.scale_k, elements_scale_k(problem), problem.num_heads_kv)},
      {"v_descale",
       scales_of_heads(problem, inputs.scale_v, elements_scale_v(problem), problem.num_heads_kv)}};
}

// Returns the lists, which are small, and which a peer wants on the host.
Tensors lists_of(const Tensors& tensors) {
  return {.cu_seqlens_q = tensors.cu_seqlens_q,
          .cu_seqlens_k = tensors.cu_seqlens_k,
          .block_pattern = tensors.block_pattern};
}

// Returns the outputs of the pass among `tensors`.
Tensors outputs_of(const Problem& problem, const Tensors& tensors) {
  Tensors outputs;
  if (problem.pass != Pass::bwd) {
    outputs.o = tensors.o;
    outputs.lse = tensors.lse;
  }
  if (problem.pass == Pass::fwd) return outputs;
  outputs.dq = tensors.dq;
  outputs.dk = tensors.dk;
  outputs.dv = tensors.dv;
  return outputs;
}

struct Fetched {
  nlohmann::json answer;
  PeerOutputs outputs;
};

// Makes a call that hands over outputs: in memory of the device where the inputs are shared and
// that can be shared as well, else in a file.
Fetched fetch(PeerProcess& process, nlohmann::json request, const PeerInputs& inputs) {
  if (Runtime* const runtime = inputs.shared_runtime(); runtime != nullptr) {
    PeerOutputs outputs(inputs.problem(), *runtime);
    if (nlohmann::json shared = share_tensors(outputs.views(), *runtime); !shared.is_null()) {
      request["outputs"] = std::move(shared);
      nlohmann::json answer = process.call(std::move(request));
      if (!get<bool>(answer, "lse")) outputs.drop_lse();
      return {std::move(answer), std::move(outputs)};
    }
  }
  request["output"] = inputs.output_file().string();
  nlohmann::json answer = process.call(std::move(request));
  return {std::move(answer), PeerOutputs(inputs.problem(), inputs.output_file())};
}

}  // namespace

PeerInputs::PeerInputs(const Problem& problem, const Tensors& host)
    : problem_(problem),
      host_(inputs_of(host)),
      descales_(descales_of(problem, host.e4m3)),
      // It has room for q, k, v, dO and o, dQ, dK, dV, and for both sides to write them anew.
      folder_(8 * (bytes_like_q(problem) + bytes_like_k(problem))) {
  write(view_inputs(problem_, host_));
}

PeerInputs::PeerInputs(const Problem& problem, const Tensors& host, const Tensors& tensors,
                       Runtime& runtime)
    : problem_(problem),
      host_(inputs_of(host)),
      descales_(descales_of(problem, host.e4m3)),
      folder_(8 * (bytes_like_q(problem) + bytes_like_k(problem))) {
  Tensors offered = inputs_of(tensors);
  offered.cu_seqlens_q = offered.cu_seqlens_k = nullptr;
  offered.block_pattern = nullptr;
  shared_ = share_tensors(view_inputs(problem, offered), runtime);
  if (!shared_.is_null()) runtime_ = &runtime;
  write(shared_.is_null() ? view_inputs(problem_, host_) : view_tensors(problem_, lists_of(host)));
}

void PeerInputs::stop_sharing() {
  runtime_ = nullptr;
  write(view_inputs(problem_, host_));
}

void PeerInputs::write(TensorViews views) const {
  for (const auto& [name, scales] : descales_) {
    views[name] = {.dtype = safetensors_dtype(Dtype::f32),
                   .shape = {problem_.batch, problem_.num_heads_kv},
                   .bytes = std::as_bytes(std::span(scales))};
  }
  write_safetensors(file(), views, to_metadata({.problem = problem_, .kernel = "", .config = ""}));
}

nlohmann::json share_tensors(const TensorViews& tensors, Runtime& runtime) {
  nlohmann::json all = nlohmann::json::object();
  for (const auto& [name, view] : tensors) {
    const std::optional<SharedMemory> memory = runtime.share(view.bytes.data());
    if (!memory) return nullptr;
    all[name] = {{"dtype", view.dtype},
                 {"shape", view.shape},
                 {"handle", memory->handle},
                 {"offset", memory->offset}};
  }
  return all;
}

PeerOutputs::PeerOutputs(const Problem& problem, const std::filesystem::path& file) try
    : problem_(problem), runtime_(&host_runtime()), file_(read_safetensors(file)) {
  const auto data = [&](const char* name) -> void* {
    const auto view = file_.tensors.find(name);
    // The cast is safe: the bytes are this object's own and not const.
    return view == file_.tensors.end() ? nullptr
                                       : const_cast<std::byte*>(view->second.bytes.data());
  };
  tensors_ = {.o = data("o"),
              .lse = static_cast<float*>(data("lse")),
              .dq = data("dq"),
              .dk = data("dk"),
              .dv = data("dv")};
  // Views of nothing stand for what should be there; lse may be missing.
  float nothing{};
  const Tensors wanted = outputs_of(problem, {.o = &nothing,
                                              .lse = tensors_.lse == nullptr ? nullptr : &nothing,
                                              .dq = &nothing,
                                              .dk = &nothing,
                                              .dv = &nothing});
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

PeerOutputs::PeerOutputs(const Problem& problem, Runtime& runtime)
    : problem_(problem), runtime_(&runtime) {
  const auto make = [&](std::uint64_t bytes) -> void* {
    auto& array = memory_.emplace_back(runtime, static_cast<std::int64_t>(bytes));
    runtime.fill(array.get(), Arena::kFill, bytes);
    return array.get();
  };
  if (problem.pass != Pass::bwd) {
    tensors_.o = make(bytes_of_o(problem));
    tensors_.lse = static_cast<float*>(make(bytes_of_lse(problem)));
  }
  if (problem.pass == Pass::fwd) return;
  tensors_.dq = make(bytes_like_q(problem));
  tensors_.dk = make(bytes_like_k(problem));
  tensors_.dv = make(bytes_like_k(problem));
}

Tensors PeerOutputs::attach(Tensors tensors) const {
  tensors.o = tensors_.o;
  tensors.lse = tensors_.lse;
  tensors.dq = tensors_.dq;
  tensors.dk = tensors_.dk;
  tensors.dv = tensors_.dv;
  return tensors;
}

LibraryPeer::LibraryPeer(PeerProcess& process, std::string name, Device device)
    : process_(process), name_(std::move(name)), device_(std::move(device)) {}

LibraryPeer::~LibraryPeer() { release(); }

PeerOutputs LibraryPeer::prepare(PeerInputs& inputs, const PeerSettings& settings) {
  release();
  try {
    return try_to_prepare(inputs, settings);
  } catch (const PeerError& error) {
    if (error.kind() != Kind::no_access || inputs.shared_runtime() == nullptr) throw;
    inputs.stop_sharing();
    return try_to_prepare(inputs, settings);
  }
}

PeerOutputs LibraryPeer::try_to_prepare(const PeerInputs& inputs, const PeerSettings& settings) {
  const bool is_cuda = device_.backend == Backend::cuda;
  nlohmann::json request = {
      {"call", "prepare"},
      {"backend", split_peer(name_).backend},
      {"device", is_cuda ? fmt::format("cuda:{}", device_.ordinal) : std::string("cpu")},
      {"threads", device_.threads},
      {"tf32", settings.tf32},
      {"sets", settings.input_sets},
      {"input", inputs.file().string()}};
  if (inputs.shared_runtime() != nullptr) request["inputs"] = inputs.shared();
  auto [answer, outputs] = fetch(process_, std::move(request), inputs);
  handle_ = get<int>(answer, "handle");
  generation_ = process_.generation();
  inputs_ = &inputs;
  launch_cost_was_hidden_ = true;
  launches_ahead_ = 0;
  kernels_.clear();
  for (const auto& entry : get<nlohmann::json::array_t>(answer, "kernels")) {
    kernels_.push_back(kernel_of(entry));
  }
  peak_bytes_.reset();
  if (answer.contains("peak_bytes") && !answer["peak_bytes"].is_null()) {
    peak_bytes_ = get<std::uint64_t>(answer, "peak_bytes");
  }
  version_ = get<std::string>(answer, "version");
  plan_.clear();
  if (answer.contains("plan") && !answer["plan"].is_null()) {
    plan_ = get<std::string>(answer, "plan");
  }
  return std::move(outputs);
}

void LibraryPeer::warm_up(std::uint64_t bytes) { call({{"call", "warm_up"}, {"bytes", bytes}}); }

double LibraryPeer::load(int launches) {
  return get<double>(call({{"call", "load"}, {"launches", launches}}), "seconds");
}

double LibraryPeer::seconds_of(int launches, Behind behind) {
  const auto answer = call({{"call", "time"},
                            {"launches", launches},
                            {"behind", behind == Behind::sleep ? "sleep" : "launches"}});
  if (!get<bool>(answer, "launch_cost_hidden")) launch_cost_was_hidden_ = false;
  launches_ahead_ = get<int>(answer, "launches_ahead");
  return get<double>(answer, "seconds");
}

PeerOutputs LibraryPeer::outputs() {
  return fetch(process_, addressed({{"call", "outputs"}}), *inputs_).outputs;
}

void LibraryPeer::release() noexcept {
  if (inputs_ == nullptr) return;
  inputs_ = nullptr;
  if (!process_.runs(generation_)) return;  // it went with its process
  try {
    process_.call({{"call", "release"}, {"handle", handle_}});
  } catch (const std::exception&) {  // the peer holds nothing any more then
  }
}

nlohmann::json LibraryPeer::addressed(nlohmann::json request) const {
  if (inputs_ == nullptr || !process_.runs(generation_)) {
    throw PeerError(Kind::lost, name_ + " is not prepared, or its process ended since");
  }
  request["handle"] = handle_;
  return request;
}

nlohmann::json LibraryPeer::call(nlohmann::json request) {
  return process_.call(addressed(std::move(request)));
}

}  // namespace attnlab
