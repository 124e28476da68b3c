#include "harness/base/file_system.h"

#include <fmt/format.h>
#include <sys/statfs.h>

#include <algorithm>
#include <array>

namespace attnlab {
namespace {

struct KnownType {
  unsigned long type;
  const char* name;
  bool is_local;
};

// Records are likely to lie on these. A fuse counts as not local: its program may share it.
constexpr std::array kKnown = {
    KnownType{0xEF53, "ext4", true},        KnownType{0x58465342, "xfs", true},
    KnownType{0x9123683E, "btrfs", true},   KnownType{0xF2F52010, "f2fs", true},
    KnownType{0x2FC12FC1, "zfs", true},     KnownType{0x01021994, "tmpfs", true},
    KnownType{0x858458F6, "ramfs", true},   KnownType{0x794C7630, "overlay", true},
    KnownType{0x6969, "nfs", false},        KnownType{0xFF534D42, "cifs", false},
    KnownType{0xFE534D42, "smb2", false},   KnownType{0x517B, "smb", false},
    KnownType{0x0BD00BD0, "lustre", false}, KnownType{0x47504653, "gpfs", false},
    KnownType{0x19830326, "beegfs", false}, KnownType{0x00C36400, "ceph", false},
    KnownType{0x01161970, "gfs2", false},   KnownType{0x7461636F, "ocfs2", false},
    KnownType{0x5346414F, "afs", false},    KnownType{0x01021997, "9p", false},
    KnownType{0x65735546, "fuse", false},
};

}  // namespace

FileSystem file_system_of_type(unsigned long type) {
  const auto* const known = std::ranges::find(kKnown, type, &KnownType::type);
  if (known == kKnown.end()) return {.name = fmt::format("0x{:x}", type)};
  return {.name = known->name, .is_local = known->is_local};
}

FileSystem file_system_of(int descriptor) {
  struct statfs status {};
  if (fstatfs(descriptor, &status) != 0) return {.name = "unknown"};
  // Where the type is signed, widening it sets the upper half, which is not part of the type.
  return file_system_of_type(static_cast<unsigned long>(status.f_type) & 0xFFFFFFFFUL);
}

}  // namespace attnlab
