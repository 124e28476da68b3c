#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/text_table.h"
#include "harness/session/doctor.h"

namespace attnlab {
namespace {

using Lines = std::vector<Diagnosis>;

constexpr std::size_t kStateWidth = 10;

struct Part {
  const char* backend;  // null: of both
  const Lines& lines;
};

const char* to_string(BackendChoice choice) {
  switch (choice) {
    case BackendChoice::automatic: return "auto";
    case BackendChoice::cpu: return "cpu";
    case BackendChoice::cuda: return "cuda";
  }
  return "?";
}

std::array<Part, 3> parts_of(const Checkup& checkup) {
  return {{{nullptr, checkup.common}, {"cpu", checkup.cpu}, {"cuda", checkup.cuda}}};
}

// Joins the lines of a message from elsewhere, which may have several.
std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

std::string entry(const Diagnosis& line, std::size_t name_width) {
  const std::size_t indent = kStateWidth + name_width;
  std::string text = wrap(fmt::format("{:<{}}{:<{}}{}", to_string(line.health), kStateWidth,
                                      line.what, name_width, on_one_line(line.finding)),
                          indent);
  if (line.health == Health::ok) return text;
  return text + wrap(std::string(indent, ' ') + "remedy: " + on_one_line(line.remedy), indent + 2);
}

// Returns "The CPU backend works." or what is missing.
std::string verdict_of(const char* name, const Lines& lines) {
  if (works(lines)) return fmt::format("The {} backend works.", name);
  std::vector<std::string> missing;
  for (const Diagnosis& line : lines) {
    if (line.essential && line.health == Health::missing) missing.push_back(line.what);
  }
  return fmt::format("The {} backend does not work: missing {}.", name, fmt::join(missing, ", "));
}

std::string verdict(const Checkup& checkup) {
  std::string text;
  if (!checkup.cpu.empty()) text += verdict_of("CPU", checkup.cpu) + " ";
  if (!checkup.cuda.empty()) text += verdict_of("CUDA", checkup.cuda) + " ";
  std::size_t wanting = 0;
  for (const Part& part : parts_of(checkup)) {
    wanting += static_cast<std::size_t>(std::ranges::count_if(part.lines, [](const auto& line) {
      return line.health != Health::ok && !(line.essential && line.health == Health::missing);
    }));
  }
  text += wanting == 0 ? "Nothing else is wanting."
                       : fmt::format("{} beside that {} not ok.", count_of(wanting, "line"),
                                     wanting == 1 ? "is" : "are");
  return text;
}

}  // namespace

std::string render(const Checkup& checkup) {
  std::size_t name_width = 0;
  for (const Part& part : parts_of(checkup)) {
    for (const Diagnosis& line : part.lines) {
      name_width = std::max(name_width, line.what.size() + 2);
    }
  }
  std::string text;
  for (const Part& part : parts_of(checkup)) {
    for (const Diagnosis& line : part.lines) text += entry(line, name_width);
  }
  return text + "\n" + wrap(verdict(checkup));
}

nlohmann::ordered_json to_json(const Checkup& checkup) {
  using Json = nlohmann::ordered_json;
  const auto state = [](const Lines& lines) { return lines.empty() ? Json() : Json(works(lines)); };
  Json checks = Json::array();
  for (const Part& part : parts_of(checkup)) {
    for (const Diagnosis& line : part.lines) {
      checks.push_back({{"backend", part.backend == nullptr ? Json() : Json(part.backend)},
                        {"what", line.what},
                        {"state", to_string(line.health)},
                        {"essential", line.essential},
                        {"finding", line.finding},
                        {"remedy", line.health == Health::ok ? Json() : Json(line.remedy)}});
    }
  }
  return {{"schema", kDoctorSchema},
          {"asked", to_string(checkup.asked)},
          {"works", {{"cpu", state(checkup.cpu)}, {"cuda", state(checkup.cuda)}}},
          {"exit_code", exit_code(checkup)},
          {"checks", checks}};
}

}  // namespace attnlab
