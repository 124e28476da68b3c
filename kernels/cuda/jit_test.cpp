#include "kernels/cuda/jit.h"

#include <gtest/gtest.h>

#include <fstream>

#include "kernels/cuda/test_support.h"

namespace attnlab::cuda {
namespace {

class Jit : public CompilerTest {};

TEST_F(Jit, SaysWhatTheKernelTakes) {
  const Compiled compiled = compile(doubling_unit(), "sm_80");
  const Compilation& facts = compiled.compilation;
  EXPECT_EQ(facts.error, "");
  EXPECT_EQ(facts.unit, "doubling");
  EXPECT_EQ(facts.arch, "sm_80");
  EXPECT_EQ(facts.compiler, nvrtc_version());
  EXPECT_GT(facts.seconds, 0.0);
  ASSERT_EQ(facts.entries.size(), 1U);
  EXPECT_EQ(facts.entries[0].entry.name, "doubling");
  EXPECT_GE(facts.entries[0].registers, 8);
  EXPECT_LE(facts.entries[0].registers, 32);
  EXPECT_EQ(facts.entries[0].static_shared_bytes, 512);
  EXPECT_EQ(facts.entries[0].spill_store_bytes, 0);
  EXPECT_EQ(facts.entries[0].blocks_per_multiprocessor, 16);  // 2048 threads
  EXPECT_DOUBLE_EQ(facts.entries[0].occupancy, 1.0);
  EXPECT_EQ(compiled.cubin.substr(0, 4), "\177ELF");
}

TEST_F(Jit, TheSecondTimeEverythingComesFromTheCache) {
  EXPECT_FALSE(find_compiled(doubling_unit(), "sm_80").has_value());
  const Compiled first = compile(doubling_unit(), "sm_80");
  const Compiled second = compile(doubling_unit(), "sm_80");
  EXPECT_FALSE(first.compilation.from_cache);
  EXPECT_TRUE(second.compilation.from_cache);
  EXPECT_EQ(first.cubin, second.cubin);
  EXPECT_EQ(first.compilation.seconds, second.compilation.seconds);
  ASSERT_EQ(second.compilation.entries.size(), 1U);
  EXPECT_EQ(first.compilation.entries[0].registers, second.compilation.entries[0].registers);
  EXPECT_TRUE(find_compiled(doubling_unit(), "sm_80").has_value());
}

TEST_F(Jit, WhatChangesTheCodeIsCompiledAnew) {
  const KernelUnit unit = doubling_unit();
  compile(unit, "sm_80");
  EXPECT_FALSE(find_compiled(unit, "sm_90a").has_value());
  KernelUnit changed = unit;
  changed.options = {"-DX=1"};
  EXPECT_FALSE(find_compiled(changed, "sm_80").has_value());
  changed = unit;
  changed.source += "// more\n";
  EXPECT_FALSE(find_compiled(changed, "sm_80").has_value());
  set_compiler({.cache_folder = cache_.path().string(), .debug = true});
  EXPECT_FALSE(find_compiled(unit, "sm_80").has_value());
}

TEST_F(Jit, AChangeOfTheLaunchAloneIsNoNewCode) {
  KernelUnit unit = doubling_unit();
  compile(unit, "sm_80");
  unit.entries[0].dynamic_shared_bytes = 100 << 10;
  const std::optional<Compiled> found = find_compiled(unit, "sm_80");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->compilation.entries.at(0).blocks_per_multiprocessor, 1);
}

TEST_F(Jit, ADamagedFileIsRebuilt) {
  const Compiled first = compile(doubling_unit(), "sm_80");
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(cache_.path())) file = entry.path();
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  const Compiled second = compile(doubling_unit(), "sm_80");
  EXPECT_FALSE(second.compilation.from_cache);
  EXPECT_EQ(first.cubin, second.cubin);
  EXPECT_TRUE(compile(doubling_unit(), "sm_80").compilation.from_cache);
}

TEST_F(Jit, ErrorsNameFileAndLine) {
  KernelUnit unit = doubling_unit();
  unit.source = "#include \"kernels/shared/base.h\"\n\nint x = undeclared;\n";
  const Compiled failed = compile(unit, "sm_80");
  EXPECT_NE(failed.compilation.error.find("doubling.cu(3): error: identifier \"undeclared\""),
            std::string::npos)
      << failed.compilation.error;
  EXPECT_EQ(failed.cubin, "");
  EXPECT_TRUE(cache_.names().empty());
}

TEST_F(Jit, WordsOfTheAssemblerAreText) {
  KernelUnit unit = doubling_unit();
  unit.source = "extern \"C\" __global__ void doubling() { asm(\"no.instruction;\"); }\n";
  const std::string error = compile(unit, "sm_80").compilation.error;
  EXPECT_NE(error.find("ptxas"), std::string::npos) << error;
  EXPECT_EQ(error.find('\0'), std::string::npos);
}

TEST_F(Jit, AMissingEntryIsAnError) {
  KernelUnit unit = doubling_unit();
  unit.entries.push_back({.name = "tripling", .threads = 64});
  const Compiled failed = compile(unit, "sm_80");
  EXPECT_NE(failed.compilation.error.find("no kernel 'tripling'"), std::string::npos);
  EXPECT_EQ(failed.cubin, "");
}

TEST_F(Jit, SpillsFailAUnitThatMustBeClean) {
  KernelUnit unit = spilling_unit();
  const Compiled failed = compile(unit, "sm_80");
  EXPECT_NE(failed.compilation.error.find("spilling: registers spill: "), std::string::npos);
  EXPECT_EQ(failed.cubin, "");
  ASSERT_EQ(failed.compilation.entries.size(), 1U);
  EXPECT_GT(failed.compilation.entries[0].spill_store_bytes, 0);
  EXPECT_NE(compile(unit, "sm_80").compilation.error, "");  // from the cache, too

  unit.must_be_clean = false;
  const Compiled good = compile(unit, "sm_80");
  EXPECT_EQ(good.compilation.error, "");
  EXPECT_TRUE(good.compilation.from_cache);
  EXPECT_NE(good.cubin, "");
}

TEST_F(Jit, WrongOptionsAreNoErrorOfTheSource) {
  KernelUnit unit = doubling_unit();
  unit.options = {"--no-such-option"};
  EXPECT_THROW(compile(unit, "sm_80"), std::runtime_error);
}

TEST_F(Jit, ACacheThatCannotBeWrittenIsAnErrorWithTheRemedy) {
  std::ofstream(cache_.path() / "file") << "in the way";
  set_compiler({.cache_folder = (cache_.path() / "file").string()});
  try {
    compile(doubling_unit(), "sm_80");
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("--cache-dir"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace attnlab::cuda
