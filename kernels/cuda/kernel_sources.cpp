#include "kernels/cuda/kernel_sources.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <stdexcept>

#include "kernels/api/compiler.h"

namespace attnlab::cuda {
namespace {

namespace fs = std::filesystem;

// Returns what every line of the form #include "..." or <...> names. A line in a comment or behind
// an #if counts as well: a header too many costs a new compilation when it changes, no wrong one.
std::vector<std::string> includes(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto skip = [&](std::string_view word) {
      line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
      if (!line.starts_with(word)) return false;
      line.remove_prefix(word.size());
      return true;
    };
    if (!skip("#") || !skip("include")) continue;
    const bool is_quoted = skip("\"");
    if (!is_quoted && !skip("<")) continue;
    const std::size_t close = line.find(is_quoted ? '"' : '>');
    if (close != std::string_view::npos) names.emplace_back(line.substr(0, close));
  }
  return names;
}

std::string read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) throw std::runtime_error(file.string() + " cannot be read");
  return text;
}

std::string source_folder() {
  const std::string& folder = compiler_settings().source_folder;
  if (!folder.empty()) return folder;
  const char* variable = std::getenv("ATTNLAB_KERNEL_SOURCES");
  return variable == nullptr ? "" : variable;
}

}  // namespace

KernelSources KernelSources::built_in() {
  std::map<std::string, std::string> texts;
  for (int i = 0; i < kNumEmbeddedSources; ++i) {
    texts.emplace(kEmbeddedSources[i].path, kEmbeddedSources[i].text);
  }
  return KernelSources(std::move(texts));
}

KernelSources KernelSources::of_tree(const std::string& folder) {
  const fs::path kernels = fs::path(folder) / "kernels";
  if (!fs::is_directory(kernels)) {
    throw std::runtime_error("--kernel-sources: " + kernels.string() +
                             " is no folder: name the root of a source tree of attnlab");
  }
  std::map<std::string, std::string> texts;
  for (const auto& entry : fs::recursive_directory_iterator(kernels)) {
    const std::string extension = entry.path().extension().string();
    if (!entry.is_regular_file() || (extension != ".h" && extension != ".cuh")) continue;
    texts.emplace(entry.path().lexically_relative(folder).generic_string(), read(entry.path()));
  }
  return KernelSources(std::move(texts));
}

std::vector<Header> KernelSources::included_by(std::string_view source) const {
  std::set<std::string> found;
  std::vector<std::string> open = includes(source);
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    const auto text = texts_.find(name);
    if (text == texts_.end() || !found.insert(name).second) continue;
    for (std::string& next : includes(text->second)) open.push_back(std::move(next));
  }
  std::vector<Header> headers;
  for (const std::string& name : found) headers.push_back({name, texts_.at(name)});
  return headers;
}

const KernelSources& kernel_sources() {
  const std::string folder = source_folder();
  if (folder.empty()) return built_in_sources();
  static std::mutex mutex;
  static std::map<std::string, KernelSources> trees;  // read once each
  const std::lock_guard lock(mutex);
  auto tree = trees.find(folder);
  if (tree == trees.end()) tree = trees.emplace(folder, KernelSources::of_tree(folder)).first;
  return tree->second;
}

const KernelSources& built_in_sources() {
  static const KernelSources sources = KernelSources::built_in();
  return sources;
}

}  // namespace attnlab::cuda

namespace attnlab {

std::map<std::string, std::string> kernel_texts() { return cuda::kernel_sources().texts(); }

}  // namespace attnlab
