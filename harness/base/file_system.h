// Tells what kind of file system a file lies on, and so whether other machines may see it, too.
#pragma once

#include <string>

namespace attnlab {

struct FileSystem {
  std::string name;       // "ext4", "nfs"; of one that is not known its number, "0x1234"
  bool is_local = false;  // surely no other machine writes to it
};

FileSystem file_system_of_type(unsigned long type);  // f_type of statfs()

// Asks the system about an open file. Where it says nothing, the file counts as not local.
FileSystem file_system_of(int descriptor);

}  // namespace attnlab
