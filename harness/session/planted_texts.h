// Writes slowdowns into the text of v2's forward on a GPU, for the gate's trial.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace attnlab {

// Says what is added to one file of the kernels, behind a line that is there once.
struct TextPlant {
  std::string what;   // "time in the main loop"
  std::string file;   // path in the tree
  std::string line;   // without its blanks
  std::string added;  // behind it
};
const std::vector<TextPlant>& text_plants();

// Writes all texts to the folder, with the plant. Throws std::runtime_error where the text has no
// such line, or several, or cannot be written.
void write_planted(const TextPlant& plant, const std::map<std::string, std::string>& texts,
                   const std::filesystem::path& folder);

}  // namespace attnlab
