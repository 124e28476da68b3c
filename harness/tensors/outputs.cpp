#include "harness/tensors/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>

#include "harness/plan/accounting.h"

namespace attnlab {
namespace {

// Holds elements of a tensor: `count` from `begin` on are overwritten with those from `from` on,
// which are others.
struct Damage {
  std::uint64_t begin = 0, from = 0, count = 1;
};

// Draws from one element to half of them; short and long parts are as likely. A tensor of one
// element has no others: `from` is behind it.
Damage draw_damage(std::mt19937_64& places, std::uint64_t elements) {
  const std::uint64_t half = elements / 2;
  if (half == 0) return {.begin = 0, .from = elements, .count = elements};
  const std::uint64_t scale =
      std::bit_floor(half) >> (places() % static_cast<std::uint64_t>(std::bit_width(half)));
  const std::uint64_t count = std::min(half, scale + places() % scale);
  const std::uint64_t begin = places() % (elements - 2 * count + 1);
  const std::uint64_t from = begin + count + places() % (elements - 2 * count - begin + 1);
  return places() % 2 == 0 ? Damage{begin, from, count} : Damage{from, begin, count};
}

}  // namespace

Outputs::Outputs(Arena& arena, const std::string& owner, const Problem& problem,
                 const Implementation& kernel, std::uint64_t saved_bytes)
    : runtime_(arena.runtime()) {
  const auto allocate = [&](const char* name, std::uint64_t bytes) {
    return buffers_.allocate(arena, name, owner, bytes);
  };
  const auto like_an_input = [&](const char* name, std::uint64_t bytes) {
    void* const data = allocate(name, bytes);
    written_.push_back({name, data, bytes, static_cast<int>(size_bytes(problem.output_dtype()))});
    return data;
  };
  if (problem.pass != Pass::bwd) {
    tensors_.o = like_an_input("o", bytes_of_o(problem));
    if (writes_lse(kernel, problem)) {
      const std::uint64_t bytes = bytes_of_lse(problem);
      tensors_.lse = static_cast<float*>(allocate("lse", bytes));
      const std::int64_t rows = problem.elements_q() / problem.head_dim;
      written_.push_back({"lse", tensors_.lse, bytes, sizeof(float),
                          static_cast<std::uint64_t>(problem.elements_lse() - rows)});
    }
    if (saved_bytes > 0) tensors_.saved = allocate("saved", saved_bytes);
  }
  if (problem.pass != Pass::fwd) {
    tensors_.dq = like_an_input("dq", bytes_like_q(problem));
    tensors_.dk = like_an_input("dk", bytes_like_k(problem));
    tensors_.dv = like_an_input("dv", bytes_like_k(problem));
  }
}

std::string Outputs::unwritten(std::uint8_t byte) const {
  for (const Written& tensor : written_) {
    const std::uint64_t left =
        runtime_.count_filled(tensor.data, byte, tensor.bytes, tensor.element_bytes);
    if (left <= tensor.may_stay) continue;
    return fmt::format("{} of {} elements of {}", left - tensor.may_stay,
                       tensor.elements() - tensor.may_stay, tensor.name);
  }
  return "";
}

void Outputs::damage(std::mt19937_64& places, std::optional<std::uint8_t> byte) {
  for (const Written& tensor : written_) {
    if (tensor.may_stay > 0 || tensor.elements() == 0) continue;
    const Damage damage = draw_damage(places, tensor.elements());
    const auto size = static_cast<std::uint64_t>(tensor.element_bytes);
    auto* const data = static_cast<std::byte*>(tensor.data);
    if (byte) {
      runtime_.fill(data + damage.begin * size, *byte, damage.count * size);
    } else if (damage.from + damage.count <= tensor.elements()) {
      runtime_.copy(data + damage.begin * size, data + damage.from * size, damage.count * size);
    }
  }
}

std::vector<std::string> Outputs::damageable() const {
  std::vector<std::string> names;
  for (const Written& tensor : written_) {
    if (tensor.may_stay == 0) names.emplace_back(tensor.name);
  }
  return names;
}

Tensors Outputs::attach(Tensors tensors) const {
  if (tensors_.o != nullptr) {
    tensors.o = tensors_.o;
    tensors.lse = tensors_.lse;
    tensors.saved = tensors_.saved;
  }
  if (tensors_.dq != nullptr) {
    tensors.dq = tensors_.dq;
    tensors.dk = tensors_.dk;
    tensors.dv = tensors_.dv;
  }
  return tensors;
}

}  // namespace attnlab
