#include "kernels/cuda/library_folders.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/api/compiler.h"
#include "kernels/api/programs.h"
#include "kernels/api/text.h"
#include "kernels/api/trusted.h"

namespace attnlab::cuda {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns a folder's entries whose names begin so, sorted backwards: a newer version comes first.
std::vector<fs::path> entries(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

// Says where a toolkit has what is looked for, and a wheel.
struct Places {
  std::vector<const char*> of_toolkit;
  const char* of_wheel;
};

const Places kOfLibraries = {.of_toolkit = {"lib64", "lib", "extras/CUPTI/lib64"},
                             .of_wheel = "lib"};
const Places kOfPrograms = {.of_toolkit = {"bin"}, .of_wheel = "bin"};

class Folders {
 public:
  explicit Folders(Places places) : places_(std::move(places)) {}

  void add(const fs::path& folder) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (error || !fs::is_directory(real, error)) return;
    if (is_local_ && is_refused(real)) return;
    if (std::find(found_.begin(), found_.end(), real) == found_.end()) found_.push_back(real);
  }
  // Adds a toolkit, or a conda environment that holds one.
  void add_toolkit(const fs::path& root) {
    if (root.empty()) return;
    for (const char* place : places_.of_toolkit) add(root / place);
    for (const fs::path& target : entries(root / "targets", "")) add(target / places_.of_wheel);
  }
  // Adds nvidia/cu13/lib of new wheels, nvidia/cuda_nvrtc/lib and the like of older ones.
  void add_wheels(const fs::path& site_packages) {
    for (const char* prefix : {"cu1", ""}) {
      for (const fs::path& package : entries(site_packages / "nvidia", prefix)) {
        add(package / places_.of_wheel);
      }
    }
  }
  void add_python(const fs::path& prefix) {
    for (const fs::path& version : entries(prefix / "lib", "python3")) {
      add_wheels(version / "site-packages");
      add_wheels(version / "dist-packages");
    }
  }
  // Adds what scripts/setup.sh --cuda makes in this folder. Nobody named it, so what others could
  // have put there is left out: all of it, or one of its folders with all files in that, since a
  // library loads others beside it by name.
  void add_local(const fs::path& folder) {
    const fs::path local = folder / ".cuda";
    std::error_code error;
    if (folder.empty() || !fs::exists(local, error) || is_refused(local)) return;
    is_local_ = true;
    add_toolkit(local);
    add_wheels(local);
    is_local_ = false;
  }
  std::vector<fs::path> take() { return std::move(found_); }
  // Returns why the first of those that were left out was; "" if none was.
  const std::string& refused() const { return refused_; }

 private:
  bool is_refused(const fs::path& folder) {
    const std::string why = is_local_ ? why_untrusted_files(folder) : why_untrusted(folder);
    if (refused_.empty()) refused_ = why;
    return !why.empty();
  }

  Places places_;
  std::vector<fs::path> found_;
  bool is_local_ = false;  // what is added is of a local environment
  std::string refused_;
};

// Returns the python3 that a shell would start, which need not be where its packages are.
std::vector<fs::path> pythons_on_path() {
  std::vector<fs::path> found;
  const std::string path = environment("PATH");
  for (const std::string_view folder : split(path, ':')) {
    const fs::path file = fs::path(folder) / "python3";
    std::error_code error;
    if (folder.empty() || !fs::exists(file, error)) continue;
    found.push_back(file);
    const fs::path real = fs::canonical(file, error);
    if (!error) found.push_back(real);
  }
  return found;
}

// Returns where scripts/setup.sh --cuda may have been: the tree that the program was built from,
// and the program's own folder.
std::vector<fs::path> local_places() {
  std::error_code error;
  return {ATTNLAB_SOURCE_ROOT, fs::read_symlink("/proc/self/exe", error).parent_path()};
}

std::vector<fs::path> search(Places places) {
  Folders folders(std::move(places));
  for (const char* name : {"CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"}) {
    const fs::path root = environment(name);
    folders.add_toolkit(root);
    if (!root.empty()) folders.add_wheels(root);
  }
  folders.add_toolkit("/usr/local/cuda");
  for (const fs::path& toolkit : entries("/usr/local", "cuda-")) folders.add_toolkit(toolkit);

  for (const fs::path& place : local_places()) folders.add_local(place);

  const std::string python_path = environment("PYTHONPATH");
  for (const std::string_view folder : split(python_path, ':')) {
    if (!folder.empty()) folders.add_wheels(folder);
  }
  const std::string virtual_env = environment("VIRTUAL_ENV");
  if (!virtual_env.empty()) folders.add_python(virtual_env);
  const fs::path home = environment("HOME");
  if (!home.empty()) folders.add_python(home / ".local");
  for (const fs::path& python : pythons_on_path()) {
    folders.add_python(python.parent_path().parent_path());
  }
  if (!home.empty()) {  // its python3 on PATH is a script that chooses one of these
    for (const fs::path& version : entries(home / ".pyenv/versions", "3")) {
      folders.add_python(version);
    }
  }
  folders.add_python("/usr/local");
  folders.add_python("/usr");
  folders.add_wheels("/usr/lib/python3/dist-packages");
  return folders.take();
}

}  // namespace

std::string refused_folder() {
  for (const Places& places : {kOfLibraries, kOfPrograms}) {
    Folders folders(places);
    for (const fs::path& place : local_places()) folders.add_local(place);
    if (!folders.refused().empty()) return folders.refused();
  }
  return "";
}

std::vector<fs::path> library_folders() { return search(kOfLibraries); }

}  // namespace attnlab::cuda

namespace attnlab {

std::string find_cuda_program(const std::string& name) {
  if (std::string found = find_on_path(name); !found.empty()) return found;
  for (const std::filesystem::path& folder : cuda::search(cuda::kOfPrograms)) {
    if (is_program(folder / name)) return (folder / name).string();
  }
  return "";
}

}  // namespace attnlab
