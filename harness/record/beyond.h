// These functions say what a competitor's operation is: what a peer computes, and what a launch ran
// beyond the kernels that the operation needs. A library adds copies, casts and fills to bring
// tensors into a layout or type of its own, and they were timed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attnlab {

// Returns the kernels in a record's `evidence` that its operation does not need, in their order, as
// objects of `symbol`, `launches` and, where the time of all that ran is known, their `share` of
// it; null where nobody saw what ran. Our kernels need the entries of their units and the products
// of the library that they are made with, a peer what needed_by_peer() says. It works for records
// that are older than the field, too.
nlohmann::ordered_json kernels_beyond(const nlohmann::ordered_json& record);

// Returns how often kernels_beyond() were launched, by short_name(), in the order in which they
// first ran; nothing where nobody saw what ran.
std::optional<std::vector<std::pair<std::string, int>>> launches_beyond(
    const nlohmann::ordered_json& record);

// Returns launches_beyond() as "2 direct_copy_kernel_cuda, 1 FillFunctor"; "" where there are none.
std::string beyond_text(const nlohmann::ordered_json& record);

// Returns what a record's peer computes, as computed_by_peer() says; "" for our kernels.
std::string computed_by_peer_of(const nlohmann::ordered_json& record);

// Returns what people call a kernel: for "void at::native::elementwise_kernel<128, 4, ...
// direct_copy_kernel_cuda(...) ...>(int, ...)" the functor that it is an instance for, else the
// name without arguments, shortened at its end if it is long.
std::string short_name(const std::string& symbol);

}  // namespace attnlab
