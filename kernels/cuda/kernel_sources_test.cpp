#include "kernels/cuda/kernel_sources.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "kernels/cuda/test_support.h"
#include "tests/paths.h"

namespace attnlab::cuda {
namespace {

std::vector<std::string> names(const std::vector<Header>& headers) {
  std::vector<std::string> names;
  for (const Header& header : headers) names.push_back(header.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(KernelSources, FindsWhatIsIncludedThroughOthers) {
  const KernelSources sources({{"kernels/a.h", "#pragma once\n#include \"kernels/b.h\"\n"},
                               {"kernels/b.h", "  # include <kernels/a.h>\nint b;"},
                               {"kernels/c.h", "int c;"},
                               {"kernels/d.h", "#include \"kernels/c.h\""}});
  EXPECT_EQ(names(sources.included_by("#include \"kernels/a.h\"\r\n")),
            (Names{"kernels/a.h", "kernels/b.h"}));
  EXPECT_EQ(names(sources.included_by("#include \"kernels/d.h\"\n#include \"kernels/c.h\"")),
            (Names{"kernels/c.h", "kernels/d.h"}));
  EXPECT_EQ(names(sources.included_by("#include \"kernels/none.h\"\n#include <cuda_fp16.h>\n")),
            Names{});
  EXPECT_EQ(names(sources.included_by("// see kernels/a.h\nint x;\n#include\n#include \"kernels")),
            Names{});
}

TEST(KernelSources, TheBuildHoldsWhatDeviceCodeIncludes) {
  const std::vector<Header> headers =
      KernelSources::built_in().included_by("#include \"kernels/shared/mask.h\"\n");
  EXPECT_GT(headers.size(), 1U);  // it includes others
  std::ifstream stream(in_tree("kernels/shared/mask.h"), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  bool found = false;
  for (const Header& header : headers) {
    if (header.name != "kernels/shared/mask.h") continue;
    found = true;
    EXPECT_EQ(header.text, text);
  }
  EXPECT_TRUE(found);
  EXPECT_TRUE(
      KernelSources::built_in().included_by("#include \"kernels/api/problem.h\"\n").empty());
}

TEST(KernelSources, ATreeIsReadInPlaceOfWhatIsBuiltIn) {
  const TestFolder folder;
  std::filesystem::create_directories(folder.path() / "kernels/mine");
  std::ofstream(folder.path() / "kernels/mine/a.cuh") << "int a;";
  std::ofstream(folder.path() / "kernels/mine/a.txt") << "no source";
  const KernelSources sources = KernelSources::of_tree(folder.path().string());
  const std::vector<Header> headers = sources.included_by("#include \"kernels/mine/a.cuh\"\n");
  ASSERT_EQ(headers.size(), 1U);
  EXPECT_EQ(headers[0].text, "int a;");
  EXPECT_TRUE(sources.included_by("#include \"kernels/mine/a.txt\"\n").empty());
  EXPECT_THROW(KernelSources::of_tree((folder.path() / "kernels").string()), std::runtime_error);
}

}  // namespace
}  // namespace attnlab::cuda
