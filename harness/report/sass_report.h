// Prints a unit for `attnlab sass`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/base/text_table.h"
#include "harness/report/sass_unit.h"

namespace attnlab {

inline constexpr const char* kSassSchema = "attnlab.sass/1";

// Chooses what is shown beside the counts by kind and the products.
struct SassView {
  bool by_line = false;  // counts of each line of the kernel's text
  bool listing = false;  // all instructions, below their lines
};

// Shows, as table and markdown, what the view asks for; as json everything; as csv a row for each
// kind of each line.
std::string render_sass(const SassUnit& unit, const SassView& view, TableFormat format);

// These are shared with the report on two units.
// Says in words what the wgmmas of a kernel are beside its schedule; "" where there is nothing to
// say.
std::string describe_products(const ProductChecks& checks, const SassCounts& counts);
inline constexpr const char* kHowCompared =
    "Compared are static counts: products are unrolled, and what is in a loop counts once for each "
    "place of the text that it comes from, each instance of a template counted.";
nlohmann::ordered_json identity_json(const SassUnit& unit);
nlohmann::ordered_json products_json(const ProductChecks& checks);
// Cuts a long line of text.
std::string shortened(const std::string& text, std::size_t most = 60);

}  // namespace attnlab
