// Defines the exit codes of every verb, and the one exception that bad input raises.
#pragma once

#include <stdexcept>

namespace attnlab {

enum ExitCode : int {
  kExitGood = 0,
  kExitVerificationFailed = 1,
  kExitUsage = 2,        // bad flag, bad file
  kExitEnvironment = 3,  // something is missing, or a measurement is invalid
  kExitSlower = 4,
  kExitAmbiguous = 5,
};

// Reports bad input: the message names the file, the key or flag, and the remedy. It ends the verb
// with code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace attnlab
