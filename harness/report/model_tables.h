// Makes the tables of attnlab model's texts, filled from the JSON model alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/base/text_table.h"

namespace attnlab {

using ModelJson = nlohmann::ordered_json;

// Holds a title, a table and what has to be said below it.
struct ModelSection {
  std::string title;
  TextTable table;
  std::string note;  // may be empty; whole lines
};

// These return value / unit with four significant digits, and with every digit; "-" for null.
std::string model_number(const ModelJson& value, double unit = 1.0, int most_decimals = 9);
std::string model_exact(const ModelJson& value, double unit = 1.0);

// Returns "0.8796 c": milliseconds (no finer than 10 ns), and whether compute or memory binds; "-"
// for null.
std::string bound_cell(const ModelJson& bound);

// These show what a kernel holds at once.
inline constexpr const char* kMemoryTitle =
    "Memory: what a kernel holds at once, as attnlab run --dry-run says";
inline constexpr const char* kMemoryNote =
    "saved: by this pass or for it (a forward alone: lse). Each thread of a CPU adds to the "
    "workspace.";
std::vector<TextColumn> memory_columns();
std::vector<TextCell> memory_cells(const ModelJson& kernel);

// Returns the sections of one point. `gpus` is the model's list.
std::vector<ModelSection> point_sections(const ModelJson& point, const ModelJson& gpus);

// Returns for several points the main numbers and the memory, a row for each kernel of each point,
// and the bounds on every GPU, a row for each point.
std::vector<ModelSection> overview_sections(const ModelJson& model);

// Returns a row for each kernel of each point with every number of the model, unrounded. A title is
// the keys that lead to its number.
TextTable model_data_table(const ModelJson& model);

}  // namespace attnlab
