// Says what this binary was built from, for records and --version.
#pragma once

namespace attnlab {

struct BuildInfo {
  const char* version;
  const char* commit;  // twelve digits, "-dirty" if tracked files differed; "unknown" outside git
  const char* compiler;
  const char* flags;
};

const BuildInfo& build_info();

}  // namespace attnlab
