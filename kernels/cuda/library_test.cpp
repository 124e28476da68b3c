#include "kernels/cuda/library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "kernels/cuda/library_folders.h"
#include "kernels/cuda/test_support.h"

namespace attnlab::cuda {
namespace {

// Returns some library that every Linux has, to be put where CUDA's might lie.
std::filesystem::path any_library() { return Library({"libm.so.6"}, "").path(); }

class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    const char* old = std::getenv(name);
    if (old != nullptr) old_ = old;
    was_set_ = old != nullptr;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() { was_set_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool was_set_ = false;
};

class LibraryIn : public testing::Test {
 protected:
  // Puts a library there and opens it by its name.
  void expect_found(const std::string& folder, const char* variable, const std::string& value) {
    const std::filesystem::path place = folder_.path() / folder;
    std::filesystem::create_directories(place);
    static int count = 0;
    const std::string name = "libattnlab-test.so." + std::to_string(++count);
    std::filesystem::copy_file(any_library(), place / name);
    EXPECT_THROW(Library({name}, ""), MissingLibrary);
    const Environment environment(variable, value);
    const Library library({"libattnlab-none.so.2", name}, "");
    EXPECT_EQ(library.path(), std::filesystem::canonical(place / name));
    double (*cosine)(double) = nullptr;
    library.bind(cosine, "cos");
    EXPECT_EQ(cosine(0.0), 1.0);
  }

  TestFolder folder_;
};

TEST_F(LibraryIn, CudaHome) { expect_found("lib64", "CUDA_HOME", folder_.path().string()); }
TEST_F(LibraryIn, TargetsOfCudaHome) {
  expect_found("targets/x86_64-linux/lib", "CUDA_HOME", folder_.path().string());
}
TEST_F(LibraryIn, LocalEnvironmentNamedAsCudaHome) {
  expect_found("nvidia/cu13/lib", "CUDA_HOME", folder_.path().string());
}
TEST_F(LibraryIn, PythonPath) {
  expect_found("nvidia/cu13/lib", "PYTHONPATH", "/nowhere::" + folder_.path().string());
}
TEST_F(LibraryIn, WheelsOfOlderReleases) {
  expect_found("nvidia/cuda_nvrtc/lib", "PYTHONPATH", folder_.path().string());
}
TEST_F(LibraryIn, VirtualEnvironment) {
  expect_found("lib/python3.11/site-packages/nvidia/cu13/lib", "VIRTUAL_ENV",
               folder_.path().string());
}
TEST_F(LibraryIn, HomeOfAUser) {
  expect_found(".local/lib/python3.12/site-packages/nvidia/cu13/lib", "HOME",
               folder_.path().string());
}
TEST_F(LibraryIn, PythonOnPath) {
  std::filesystem::create_directories(folder_.path() / "bin");
  std::ofstream(folder_.path() / "bin/python3") << "not started";
  expect_found("lib/python3.13/site-packages/nvidia/cu13/lib", "PATH",
               "/nowhere:" + (folder_.path() / "bin").string());
}

TEST_F(LibraryIn, APathIsOpenedAsItIs) {
  const std::filesystem::path file = folder_.path() / "libown.so";
  std::filesystem::copy_file(any_library(), file);
  EXPECT_EQ(Library({file.string()}, "").path(), std::filesystem::canonical(file));
}

TEST_F(LibraryIn, WhatIsMissingIsNamedWithPlacesAndRemedy) {
  std::filesystem::create_directories(folder_.path() / "lib64");
  std::ofstream(folder_.path() / "lib64/libattnlab-broken.so") << "no library";
  const Environment environment("CUDA_HOME", folder_.path().string());
  try {
    const Library library({"libattnlab-broken.so", "libattnlab-none.so"}, "Buy one");
    FAIL() << "nothing was thrown";
  } catch (const MissingLibrary& error) {
    const std::string words = error.what();
    EXPECT_NE(words.find("libattnlab-broken.so or libattnlab-none.so"), std::string::npos);
    EXPECT_NE(words.find((folder_.path() / "lib64").string()), std::string::npos) << words;
    EXPECT_NE(words.find("/libattnlab-broken.so: "), std::string::npos) << words;
    EXPECT_TRUE(words.ends_with("Buy one")) << words;
  }
}

// Makes .cuda beside the program, as scripts/setup.sh --cuda may; it goes with the object.
class LocalEnvironment {
 public:
  LocalEnvironment() {
    root_ = std::filesystem::read_symlink("/proc/self/exe").parent_path() / ".cuda";
    is_made_ = std::filesystem::create_directory(root_);
    std::filesystem::create_directories(libraries());
  }
  ~LocalEnvironment() { std::filesystem::remove_all(is_made_ ? root_ : root_ / "nvidia/test"); }
  LocalEnvironment(const LocalEnvironment&) = delete;
  LocalEnvironment& operator=(const LocalEnvironment&) = delete;
  std::filesystem::path libraries() const { return root_ / "nvidia/test/lib"; }

 private:
  std::filesystem::path root_;
  bool is_made_ = false;
};

// A library loads others of its folder by name, so each file there counts.
TEST_F(LibraryIn, ALocalEnvironmentIsLeftOutWhereOthersCanWriteAFile) {
  const LocalEnvironment local;
  const std::string name = "libattnlab-local.so";
  const std::filesystem::path beside = local.libraries() / "libbeside.so";
  std::filesystem::copy_file(any_library(), local.libraries() / name);
  std::filesystem::permissions(local.libraries() / name, std::filesystem::perms(0644));
  std::ofstream(beside) << "what the library may load";
  std::filesystem::permissions(beside, std::filesystem::perms(0666));
  try {
    const Library library({name}, "Buy one");
    FAIL() << "nothing was thrown";
  } catch (const MissingLibrary& error) {
    const std::string words = error.what();
    EXPECT_NE(words.find("what is in .cuda is not taken: " + beside.string() +
                         " can be written by others (mode 0666); take that away from them"),
              std::string::npos)
        << words;
  }
  EXPECT_TRUE(refused_folder().starts_with(beside.string())) << refused_folder();
  std::filesystem::permissions(beside, std::filesystem::perms(0644));
  EXPECT_EQ(refused_folder(), "");
  EXPECT_EQ(Library({name}, "").path(), std::filesystem::canonical(local.libraries() / name));
}

TEST_F(LibraryIn, AMissingFunctionIsNamed) {
  const Library library({"libm.so.6"}, "");
  EXPECT_THROW(library.symbol("no_such_function"), MissingLibrary);
}

TEST_F(LibraryIn, AFunctionMayBeMissing) {
  const Library library({"libm.so.6"}, "");
  double (*function)(double) = nullptr;
  library.bind_if_there(function, "cos");
  ASSERT_NE(function, nullptr);
  EXPECT_EQ(function(0.0), 1.0);
  library.bind_if_there(function, "no_such_function");
  EXPECT_EQ(function(0.0), 1.0) << "left as it was";
}

}  // namespace
}  // namespace attnlab::cuda
