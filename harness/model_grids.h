// The grids that attnlab model's texts are made of, filled from the JSON model alone.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/grid.h"

namespace attnlab {

using ModelJson = nlohmann::ordered_json;

// A title, a grid and what has to be said below it.
struct ModelSection {
  std::string title;
  Grid grid;
  std::string note;  // may be empty; whole lines
};

// Four significant digits of value / unit, as far as decimals go, and every digit; "-" for null.
std::string model_number(const ModelJson& value, double unit = 1.0, int most_decimals = 9);
std::string model_exact(const ModelJson& value, double unit = 1.0);

// "0.8796 c": milliseconds (no finer than 10 ns), and whether compute or memory binds; "-" for
// null.
std::string bound_cell(const ModelJson& bound);

// The sections of one point. `gpus` is the model's list.
std::vector<ModelSection> point_sections(const ModelJson& point, const ModelJson& gpus);

// Several points: the main numbers, a row for each kernel of each point, and the bounds on every
// GPU, a row for each point.
std::vector<ModelSection> overview_sections(const ModelJson& model);

// One row for each kernel of each point, numbers unrounded, units in the titles.
Grid model_data_grid(const ModelJson& model);

}  // namespace attnlab
