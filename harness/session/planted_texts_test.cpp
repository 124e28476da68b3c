#include "harness/session/planted_texts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "harness/testing/test_support.h"
#include "kernels/api/compiler.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(PlantedTexts, AreThoseOfThisBuildWithOneLineMore) {
  const auto texts = kernel_texts();
  if (texts.empty()) GTEST_SKIP() << "a build without CUDA has no texts";
  for (const TextPlant& plant : text_plants()) {
    const TestFolder folder;
    write_planted(plant, texts, folder.path());
    for (const auto& [path, text] : texts) {
      const std::string written = read(folder.path() / path);
      if (path != plant.file) {
        EXPECT_EQ(written, text) << path;
        continue;
      }
      EXPECT_EQ(written.size(), text.size() + plant.added.size()) << plant.what;
      EXPECT_NE(written, text);
      const std::size_t line = written.find(plant.line);
      EXPECT_EQ(written.substr(written.find('\n', line) + 1, plant.added.size()), plant.added);
    }
  }
}

TEST(PlantedTexts, ALineThatIsNotThereOnceIsAnError) {
  const TestFolder folder;
  const TextPlant plant = {.what = "w", .file = "kernels/a.cuh", .line = "x;", .added = "y;\n"};
  write_planted(plant, {{"kernels/a.cuh", "x;\nz;\n"}}, folder.path());
  EXPECT_EQ(read(folder.path() / "kernels/a.cuh"), "x;\ny;\nz;\n");
  for (const char* text : {"z;\n", "x;\nx;\n"}) {
    EXPECT_THROW(write_planted(plant, {{"kernels/a.cuh", text}}, folder.path()),
                 std::runtime_error);
  }
  EXPECT_THROW(write_planted(plant, {}, folder.path()), std::runtime_error);
}

}  // namespace
}  // namespace attnlab
