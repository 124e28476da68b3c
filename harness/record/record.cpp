#include "harness/record/record.h"

namespace attnlab {

const char* to_string(Status status) {
  switch (status) {
    case Status::ok: return "ok";
    case Status::failed: return "failed";
    case Status::unsupported: return "unsupported";
    case Status::out_of_memory: return "out_of_memory";
    case Status::invalid: return "invalid";
    case Status::skipped: return "skipped";
  }
  return "?";
}

const char* to_string(ClaimVerdict verdict) {
  switch (verdict) {
    case ClaimVerdict::proved: return "proved";
    case ClaimVerdict::unproved: return "unproved";
    case ClaimVerdict::rejected: return "rejected";
  }
  return "?";
}

}  // namespace attnlab
