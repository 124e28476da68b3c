#include "harness/run/quantise_timing.h"

#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/measure/bench.h"
#include "harness/measure/timing.h"
#include "harness/plan/accounting.h"
#include "harness/tensors/arena.h"
#include "kernels/api/runtime.h"

namespace attnlab {
namespace {

// A GPU's queue has a thousand places, and a launch is up to six kernels and a clearing.
constexpr int kMostQueuedLaunches = 50;

// QuantisedTensors is a second set of codes and scales, beside the one that the CPU made.
class QuantisedTensors {
 public:
  QuantisedTensors(const Problem& problem, const E4m3Inputs& expected, Arena& arena)
      : arena_(arena) {
    for_each_of_e4m3(problem, [&]<class T>(const char* name, const T* E4m3Inputs::*member,
                                           T* E4m3Outputs::*own, std::int64_t elements) {
      const std::uint64_t bytes = static_cast<std::uint64_t>(elements) * sizeof(T);
      tensors_.push_back({name, expected.*member, arena_.allocate(name, bytes), bytes});
      outputs_.*own = static_cast<T*>(tensors_.back().own.get());
    });
  }

  const E4m3Outputs& outputs() const { return outputs_; }

  void poison() {
    for (const Tensor& tensor : tensors_) {
      arena_.runtime().fill(tensor.own.get(), Arena::kFill, tensor.bytes);
    }
  }

  // Returns what is not as the CPU has it, or where else was written; "" if all is well.
  std::string fault() {
    Runtime& runtime = arena_.runtime();
    for (const Tensor& tensor : tensors_) {
      if (runtime.fingerprint(tensor.own.get(), tensor.bytes) !=
          runtime.fingerprint(tensor.expected, tensor.bytes)) {
        return tensor.name + " has other bytes than the CPU's";
      }
    }
    const std::string where = arena_.restore_guards();
    return where.empty() ? "" : "a kernel that quantises " + where;
  }

 private:
  struct Tensor {
    std::string name;
    const void* expected;
    Arena::Buffer own;
    std::uint64_t bytes;
  };

  Arena& arena_;
  std::vector<Tensor> tensors_;
  E4m3Outputs outputs_;
};

struct WrongCodes : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Compiles the kernels that quantise; make_device_quantiser() reports any errors.
std::vector<Compilation> compile(const Problem& problem, const Device& device) {
  std::vector<CompileJob> jobs;
  for (KernelUnit& unit : quantiser_units(problem, device)) {
    jobs.push_back({.unit = std::move(unit), .arch = arch_of(device)});
  }
  return compile_ahead(jobs, 1, [](const Compilation&) {});
}

// Takes samples, before each of which the tensors are poisoned, and throws what was thrown
// meanwhile: WrongCodes where a sample leaves other bytes than the CPU's.
Samples sample(DeviceQuantiser& quantiser, const Inputs& inputs, QuantisedTensors& tensors,
               const Device& device, Protocol protocol, const std::function<void()>& before) {
  protocol.regime = Regime::burst;
  Runtime& runtime = runtime_of(device);
  const auto launch = [&](int) { quantiser.launch(inputs.tensors(), tensors.outputs()); };
  // A launch between the fill and the sample would undo the fill, so the sample begins with caches
  // as that leaves them.
  const auto poison = [&](int) { tensors.poison(); };
  const auto check = [&] {
    const std::string fault = tensors.fault();
    if (!fault.empty()) throw WrongCodes(fault);
  };
  const TimedLaunches launches = {.name = "quantise",
                                  .time = [&](int n) { return runtime.seconds_of(n, launch, {}); },
                                  .before = before,
                                  .prepare = poison,
                                  .check = check,
                                  .most_launches = kMostQueuedLaunches};
  Samples samples = measure({launches}, protocol, device.backend, [](int) {}).at(0);
  if (samples.error) std::rethrow_exception(samples.error);
  return samples;
}

}  // namespace

QuantiseRecord time_quantiser(DeviceQuantiser& quantiser, const Inputs& inputs, Arena& arena,
                              const Device& device, const Protocol& protocol,
                              const std::function<void()>& before) {
  QuantiseRecord record = {.bytes = quantiser.bytes()};
  QuantisedTensors tensors(inputs.problem(), inputs.tensors().e4m3, arena);
  quantiser.launch(inputs.tensors(), tensors.outputs());
  record.reason = tensors.fault();
  if (!record.reason.empty()) return record;
  try {
    record.time = summarize_plain<QuantiseTiming>(
        sample(quantiser, inputs, tensors, device, protocol, before));
  } catch (const WrongCodes& wrong) {
    record.reason = wrong.what();
  }
  return record;
}

std::optional<QuantiseRecord> time_quantisation(const Inputs& inputs, Arena& arena,
                                                const RunContext& context,
                                                const std::function<void()>& before) {
  const Device& device = *context.device;
  const Problem& problem = inputs.problem();
  if (!problem.is_e4m3() || device.backend == Backend::cpu || context.turns != nullptr) return {};
  if (std::string why = why_no_quantiser(problem, device); !why.empty()) {
    return QuantiseRecord{.reason = std::move(why)};
  }
  const char* const no_memory = "there is no memory for a second set of codes";
  if (arena.current_bytes() + bytes_of_codes(problem) > context.memory_limit_bytes) {
    return QuantiseRecord{.reason = no_memory};
  }
  QuantiseRecord record;
  std::vector<Compilation> compilations;
  try {
    compilations = compile(problem, device);
    record = time_quantiser(*make_device_quantiser(problem, device), inputs, arena, device,
                            context.protocol, before);
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::bad_alloc&) {
    record.reason = no_memory;
  } catch (const std::runtime_error& error) {
    record.reason = error.what();
  }
  record.compilations = std::move(compilations);
  return record;
}

}  // namespace attnlab
