#include "kernels/api/trusted.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNameBytes = 16384;  // what the system's functions put names into

std::string octal(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777u));
  return text;
}

// Returns whether the owner is root, who runs this program, or whose program it is.
bool is_trusted_owner(uid_t owner) {
  struct stat program = {};
  const bool is_known = stat("/proc/self/exe", &program) == 0;
  return owner == 0 || owner == geteuid() || (is_known && owner == program.st_uid);
}

// Returns whether the number stands for owners that a user namespace has no name for, root among
// them: the folders above one's own are root's.
bool is_unnamed_owner(uid_t owner) {
  unsigned inside = 0, outside = 0, count = 0;
  if (std::ifstream map("/proc/self/uid_map"); !(map >> inside >> outside >> count)) return false;
  uid_t overflow = 0;
  if (std::ifstream file("/proc/sys/kernel/overflowuid"); !(file >> overflow)) return false;
  constexpr unsigned kAllUsers = 4294967295u;
  return count != kAllUsers && owner == overflow;
}

// Returns whether nobody but root and the owner is in the group: it is root's, or the owner's of
// the same name, as distributions make one for each user.
bool is_private_group(gid_t group, uid_t owner) {
  if (group == 0) return true;
  std::array<char, kNameBytes> user_names, group_names;
  passwd user_entry = {}, *user = nullptr;
  struct group group_entry = {}, *found = nullptr;
  getpwuid_r(owner, &user_entry, user_names.data(), user_names.size(), &user);
  getgrgid_r(group, &group_entry, group_names.data(), group_names.size(), &found);
  if (user == nullptr || found == nullptr || user->pw_gid != group) return false;
  if (std::string(user->pw_name) != found->gr_name) return false;
  for (char** member = found->gr_mem; *member != nullptr; ++member) {
    if (std::string(*member) != user->pw_name) return false;
  }
  return true;
}

// Looks at one place on the way to the file: itself (`is_last`) or a folder above it. What lies in
// a folder with the sticky bit can be replaced by its owner alone, who is looked at in turn.
std::string why_untrusted_place(const fs::path& place, bool is_last) {
  struct stat found = {};
  if (lstat(place.c_str(), &found) != 0) return place.string() + " is not there";
  if (!is_trusted_owner(found.st_uid) && (is_last || !is_unnamed_owner(found.st_uid))) {
    return place.string() + " belongs to user " + std::to_string(found.st_uid);
  }
  if (S_ISLNK(found.st_mode)) return "";
  if (S_ISDIR(found.st_mode) && (found.st_mode & S_ISVTX) != 0 && !is_last) return "";
  const bool by_all = (found.st_mode & S_IWOTH) != 0;
  const bool by_group =
      (found.st_mode & S_IWGRP) != 0 && !is_private_group(found.st_gid, found.st_uid);
  if (!by_all && !by_group) return "";
  return place.string() + " can be written by others (mode " + octal(found.st_mode) + ")";
}

std::string why_untrusted_way(const fs::path& path) {
  bool is_last = true;
  for (fs::path place = path;; place = place.parent_path()) {
    if (std::string why = why_untrusted_place(place, is_last); !why.empty()) return why;
    if (place == place.root_path()) return "";
    is_last = false;
  }
}

}  // namespace

std::string why_untrusted(const fs::path& path) {
  std::error_code error;
  const fs::path named = fs::absolute(path, error).lexically_normal();
  const fs::path real = fs::canonical(path, error);
  if (error) return path.string() + " is not there";
  const std::string why = why_untrusted_way(real);
  return why.empty() && named != real ? why_untrusted_way(named) : why;
}

std::string why_untrusted_files(const fs::path& folder) {
  if (std::string why = why_untrusted(folder); !why.empty()) return why;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const fs::path file = entry->path();
    std::error_code ignored;
    // The way to the file was looked at above, but where a link leads, another one goes.
    const bool is_link = entry->is_symlink(ignored);
    if (is_link && !fs::exists(file, ignored)) continue;  // nothing can be loaded by it
    std::string why = is_link ? why_untrusted(file) : why_untrusted_place(file, true);
    if (why.empty() && file.filename() == "__pycache__") why = why_untrusted_files(file);
    if (!why.empty()) return why;
  }
  return error ? folder.string() + " cannot be listed" : "";
}

}  // namespace attnlab
