// Opens shared libraries at run time, and links none: one binary starts anywhere and says what is
// missing.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace attnlab::cuda {

// A library or a function in it is not there. The message names it, where it was looked for, and
// the remedy.
class MissingLibrary : public std::runtime_error {
 public:
  explicit MissingLibrary(const std::string& finding, const std::string& remedy = "")
      : std::runtime_error(remedy.empty() ? finding : finding + ". " + remedy),
        finding_(finding),
        remedy_(remedy) {}
  // These are the message in two.
  const std::string& finding() const { return finding_; }
  const std::string& remedy() const { return remedy_; }

 private:
  std::string finding_;
  std::string remedy_;
};

class Library {
 public:
  // Opens the first of `names` ("libnvrtc.so.13", ...) that is found: by the system's loader, in
  // $CUDA_HOME, in /usr/local/cuda, in the local environment of scripts/setup.sh --cuda
  // (.cuda/ in the sources or beside the program), or in Python's nvidia wheels. `remedy` ends the
  // message of MissingLibrary. A path in place of a name is opened as it is.
  Library(const std::vector<std::string>& names, const std::string& remedy);
  ~Library() = default;  // libraries stay open as long as the process

  // Returns null where the library has no such function.
  void* find(const char* name) const;
  // Throws MissingLibrary.
  void* symbol(const char* name) const;
  template <class Function>
  void bind(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(symbol(name));
  }
  // Leaves `function` as it is where the library does not have it.
  template <class Function>
  void bind_if_there(Function*& function, const char* name) const {
    if (void* const address = find(name)) function = reinterpret_cast<Function*>(address);
  }

  // Returns the path of the file that was opened.
  const std::filesystem::path& path() const { return path_; }

 private:
  void* handle_ = nullptr;
  std::filesystem::path path_;
};

}  // namespace attnlab::cuda
