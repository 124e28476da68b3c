#include "harness/session/planted_texts.h"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>

namespace attnlab {
namespace {

// Waits for about so many nanoseconds, beside the loads and products of other warps. It takes
// no register: v2's forward has none left, and a unit that spills is refused.
std::string wait(int nanoseconds) { return fmt::format("__nanosleep({});\n", nanoseconds); }

// Returns where the line ends, behind its newline.
std::size_t end_of_line(const std::string& text, const TextPlant& plant) {
  const std::size_t found = text.find(plant.line);
  const bool is_there_once =
      found != std::string::npos && text.find(plant.line, found + 1) == std::string::npos;
  if (!is_there_once) {
    throw std::runtime_error(fmt::format(
        "{}: has not exactly one line '{}', behind which a slowdown is planted: these kernels are "
        "of another version than this program",
        plant.file, plant.line));
  }
  return text.find('\n', found) + 1;
}

}  // namespace

const std::vector<TextPlant>& text_plants() {
  static const std::string kFile = "kernels/v2/forward.cuh";
  static const std::vector<TextPlant> kPlants = {
      {"time in the main loop", kFile,
       "softmax_step(shape.softmax_scale_log2, states, rS, rO);  // P = exp(S - max)", wait(1400)},
      {"time at a launch's end", kFile, "// Divides O by the sum, and stores lse.", wait(22000)},
      {"bytes, K read four times", kFile, "load(gK, ahead, kTiles.k_tile(stage));",
       "for (int again = 0; again < 3; ++again) load(gK, ahead, kTiles.k_tile(stage));\n"}};
  return kPlants;
}

void write_planted(const TextPlant& plant, const std::map<std::string, std::string>& texts,
                   const std::filesystem::path& folder) {
  if (!texts.contains(plant.file)) {
    throw std::runtime_error(fmt::format("there is no {} to plant a slowdown in", plant.file));
  }
  for (const auto& [path, text] : texts) {
    std::string planted = text;
    if (path == plant.file) planted.insert(end_of_line(text, plant), plant.added);
    const std::filesystem::path file = folder / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream stream(file, std::ios::binary);
    stream << planted;
    stream.close();
    if (!stream) throw std::runtime_error(fmt::format("{}: cannot be written", file.string()));
  }
}

}  // namespace attnlab
