#include "kernels/cuda/library.h"

#include <dlfcn.h>
#include <link.h>

#include "kernels/cuda/library_folders.h"

namespace attnlab::cuda {
namespace {

std::filesystem::path path_of(void* handle, const std::string& name) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return name;
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(map->l_name, error);
  return error ? std::filesystem::path(map->l_name) : real;
}

// Returns the loader's words about a file that is there and cannot be opened; "" if it was opened.
std::string open(const std::string& file, void*& handle) {
  handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return "";
  const char* words = dlerror();
  return words == nullptr ? file + " cannot be opened" : words;
}

}  // namespace

Library::Library(const std::vector<std::string>& names, const std::string& remedy) {
  std::string complaints;
  const std::vector<std::filesystem::path> folders = library_folders();
  for (const std::string& name : names) {
    const std::string words = open(name, handle_);
    const bool is_path = name.find('/') != std::string::npos;
    if (is_path && handle_ == nullptr) complaints += "; " + words;
    for (auto folder = folders.begin(); folder != folders.end() && !is_path && handle_ == nullptr;
         ++folder) {
      const std::filesystem::path file = *folder / name;
      std::error_code error;
      if (!std::filesystem::exists(file, error)) continue;
      const std::string why = open(file.string(), handle_);
      if (handle_ == nullptr) complaints += "; " + why;
    }
    if (handle_ != nullptr) {
      path_ = path_of(handle_, name);
      return;
    }
  }
  std::string message = "there is no ";
  for (const std::string& name : names) message += (&name == &names[0] ? "" : " or ") + name;
  message += ": the system's loader does not know it";
  if (!folders.empty()) message += ", nor is it in";
  for (const auto& folder : folders) {
    message += (&folder == &folders[0] ? " " : ", ") + folder.string();
  }
  if (const std::string refused = refused_folder(); !refused.empty()) {
    complaints += "; what is in .cuda is not taken: " + refused +
                  "; take that away from them, or name it in CUDA_HOME";
  }
  throw MissingLibrary(message + complaints, remedy);
}

void* Library::find(const char* name) const { return dlsym(handle_, name); }

void* Library::symbol(const char* name) const {
  void* address = find(name);
  if (address == nullptr) {
    throw MissingLibrary(path_.string() + " has no function " + name +
                         ": it is older than this program; bring a newer one");
  }
  return address;
}

}  // namespace attnlab::cuda
