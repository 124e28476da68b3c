#include "harness/verify/options.h"

namespace attnlab::verify {

const char* to_string(Part part) {
  switch (part) {
    case Part::shapes: return "shapes";
    case Part::random: return "random";
    case Part::properties: return "properties";
    case Part::repeats: break;
  }
  return "repeats";
}

const char* to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed: return "passed";
    case Outcome::failed: return "failed";
    case Outcome::skipped: break;
  }
  return "skipped";
}

bool matches_glob(const std::string& glob, const std::string& text) {
  std::size_t g = 0, t = 0;
  std::size_t star = std::string::npos, resume = 0;  // the last '*', and what it has yet to take
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      resume = t;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g;
      ++t;
    } else if (star != std::string::npos) {
      g = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == std::string::npos;
}

}  // namespace attnlab::verify
