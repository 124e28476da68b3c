#include "harness/base/shipped.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "tests/paths.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

// Makes a file of a name that nobody else has, and removes it with the object.
class Stray {
 public:
  explicit Stray(const fs::path& folder)
      : name_("attnlab-stray-" + std::to_string(getpid())), file_(folder / name_) {
    std::ofstream(file_) << "text";
    fs::permissions(file_, fs::perms(0644));
  }
  ~Stray() { fs::remove(file_); }
  Stray(const Stray&) = delete;
  Stray& operator=(const Stray&) = delete;
  const std::string& name() const { return name_; }
  const fs::path& file() const { return file_; }

 private:
  std::string name_;
  fs::path file_;
};

TEST(Shipped, IsInTheSourcesOrBesideTheProgram) {
  EXPECT_EQ(find_shipped("sweeps/quick.json").path, in_tree("sweeps/quick.json"));
  const Stray beside(in_build("."));
  EXPECT_TRUE(fs::equivalent(find_shipped(beside.name()).path, beside.file()));
  EXPECT_TRUE(find_shipped("nowhere/at/all").path.empty());
}

TEST(Shipped, IsNotLookedForAboveTheProgram) {
  const Stray above(in_build(".."));
  EXPECT_TRUE(find_shipped(above.name()).path.empty());
  EXPECT_EQ(find_shipped(above.name()).refused, "");
}

TEST(Shipped, WhatOthersCanWriteIsRefused) {
  const Stray beside(in_build("."));
  fs::permissions(beside.file(), fs::perms(0666));
  EXPECT_TRUE(find_shipped(beside.name()).path.empty());
  EXPECT_NE(find_shipped(beside.name()).refused.find("can be written by others (mode 0666)"),
            std::string::npos);
}

// Makes a file in the folder of the peers' scripts, where one peer imports the others.
TEST(Shipped, AProgramIsAsGoodAsTheModulesBesideIt) {
  constexpr const char* kScript = "scripts/peers/peer.py";
  ASSERT_EQ(find_shipped_among_modules(kScript).path, in_tree(kScript));
  const Stray module(in_tree("scripts/peers"));
  EXPECT_EQ(find_shipped_among_modules(kScript).path, in_tree(kScript));
  fs::permissions(module.file(), fs::perms(0666));
  EXPECT_TRUE(find_shipped_among_modules(kScript).path.empty());
  EXPECT_EQ(find_shipped_among_modules(kScript).refused,
            module.file().string() + " can be written by others (mode 0666)");
  EXPECT_EQ(find_shipped(kScript).path, in_tree(kScript)) << "what is only read may lie beside it";
}

}  // namespace
}  // namespace attnlab
