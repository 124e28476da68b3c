// Gives the text of the kernels' headers: built in, or read from a tree so that an edit is tried
// without a rebuild.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/nvrtc.h"

namespace attnlab::cuda {

class KernelSources {
 public:
  // Returns the sources that this build holds.
  static KernelSources built_in();
  // Returns a tree's sources: `folder` holds kernels/. Throws std::runtime_error if it does not.
  static KernelSources of_tree(const std::string& folder);
  explicit KernelSources(std::map<std::string, std::string> texts) : texts_(std::move(texts)) {}

  // Returns the headers that a source includes, and those that they include, and so on; each once,
  // by name. What is not among the sources is left to the compiler, which says where it was wanted.
  std::vector<Header> included_by(std::string_view source) const;

  const std::map<std::string, std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, std::string> texts_;  // path in the tree -> text
};

// Returns the sources of compiler_settings(), or of $ATTNLAB_KERNEL_SOURCES where no folder is set.
const KernelSources& kernel_sources();
// Returns what is built in, whatever the settings say.
const KernelSources& built_in_sources();

// EmbeddedSource is what the build puts into the program (scripts/embed_kernels.cmake).
struct EmbeddedSource {
  const char* path;
  const char* text;
};
extern const EmbeddedSource kEmbeddedSources[];
extern const int kNumEmbeddedSources;

}  // namespace attnlab::cuda
