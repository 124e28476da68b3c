#include "harness/record/beyond.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/plan/peer_names.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

// These are matrix products of cuBLAS, the one library that a kernel of ours may be made with.
constexpr std::array<std::string_view, 5> kProducts = {"nvjet_", "gemm", "cutlass", "gemv",
                                                       "splitKreduce"};

// These name functors: PyTorch's kernels are template instances, and the functor says what they do.
constexpr std::array<std::string_view, 4> kFunctors = {"direct_copy_kernel_cuda",
                                                       "float16_copy_kernel_cuda",
                                                       "bfloat16_copy_kernel_cuda", "FillFunctor"};

Json member(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? Json() : *found;
}

std::vector<std::string> own_entries(const Json& record) {
  std::vector<std::string> names;
  for (const Json& unit : member(record, "compile")) {
    for (const Json& entry : member(unit, "entries")) {
      names.push_back(entry.value("name", std::string()));
    }
  }
  return names;
}

bool is_product(const std::string& symbol) {
  return std::ranges::any_of(
      kProducts, [&](std::string_view part) { return symbol.find(part) != std::string::npos; });
}

// Adds up the seconds of all kernels; returns nothing where one of them has none.
std::optional<double> seconds_of(const Json& executed) {
  double total = 0.0;
  for (const Json& kernel : executed) {
    const Json seconds = member(kernel, "seconds");
    if (!seconds.is_number()) return std::nullopt;
    total += seconds.get<double>();
  }
  if (!(total > 0.0)) return std::nullopt;
  return total;
}

// Leaves out the end of a long name.
std::string shortened(const std::string& name) {
  constexpr std::size_t kLongest = 60;
  return name.size() <= kLongest ? name : name.substr(0, kLongest) + "...";
}

}  // namespace

Json kernels_beyond(const Json& record) {
  const Json executed = member(member(record, "evidence"), "executed");
  if (!executed.is_array()) return nullptr;
  const std::string competitor = record.at("kernel").get<std::string>();
  const std::vector<std::string> own = own_entries(record);
  const auto is_needed = [&](const std::string& symbol) {
    if (is_peer(competitor)) return needed_by_peer(competitor, symbol);
    return is_product(symbol) || std::ranges::find(own, symbol) != own.end();
  };
  const std::optional<double> total = seconds_of(executed);
  Json beyond = Json::array();
  for (const Json& kernel : executed) {
    const std::string symbol = kernel.at("symbol").get<std::string>();
    if (is_needed(symbol)) continue;
    Json entry = {{"symbol", symbol}, {"launches", kernel.at("launches")}};
    if (total) entry["share"] = kernel.at("seconds").get<double>() / *total;
    beyond.push_back(std::move(entry));
  }
  return beyond;
}

std::optional<std::vector<std::pair<std::string, int>>> launches_beyond(const Json& record) {
  const Json beyond = kernels_beyond(record);
  if (!beyond.is_array()) return std::nullopt;
  using Launches = std::pair<std::string, int>;
  std::vector<Launches> launches;
  for (const Json& kernel : beyond) {
    const std::string name = short_name(kernel.at("symbol").get<std::string>());
    auto found = std::ranges::find(launches, name, &Launches::first);
    if (found == launches.end()) found = launches.insert(found, {name, 0});
    found->second += kernel.at("launches").get<int>();
  }
  return launches;
}

std::string beyond_text(const Json& record) {
  const auto launches = launches_beyond(record);
  std::string text;
  if (!launches) return text;
  for (const auto& [name, times] : *launches) {
    text += (text.empty() ? "" : ", ") + std::to_string(times) + " " + name;
  }
  return text;
}

std::string computed_by_peer_of(const Json& record) {
  const std::string competitor = record.at("kernel").get<std::string>();
  return is_peer(competitor) ? std::string(computed_by_peer(competitor)) : "";
}

std::string short_name(const std::string& symbol) {
  for (const std::string_view functor : kFunctors) {
    const std::size_t at = symbol.find(functor);
    // The match must be a whole name, not the end of a longer one.
    if (at != std::string::npos && (at == 0 || symbol[at - 1] == ':')) return std::string(functor);
  }
  constexpr std::string_view kVoid = "void ";
  const std::size_t begin = symbol.starts_with(kVoid) ? kVoid.size() : 0;
  const std::size_t end = symbol.find_first_of("<(", begin);
  // A name like "(anonymous namespace)::name" is kept: a cut at the bracket would leave nothing.
  if (end == begin || end == std::string::npos) return shortened(symbol.substr(begin));
  const std::size_t last = symbol.find_last_not_of(' ', end - 1);  // "Memcpy DtoD (Device -> ..."
  return shortened(symbol.substr(begin, last + 1 - begin));
}

}  // namespace attnlab
