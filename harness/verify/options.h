// The options say what is verified; a result says what became of each check.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "kernels/api/compiler.h"
#include "kernels/api/implementation.h"

namespace attnlab::verify {

enum class Part : std::uint8_t { shapes, random, properties, repeats };
const char* to_string(Part part);
inline constexpr Part kAllParts[] = {Part::shapes, Part::random, Part::properties, Part::repeats};

enum class Outcome : std::uint8_t { passed, failed, skipped };
const char* to_string(Outcome outcome);

// Says what follows a failure: all other checks, or no further check of the kernel that failed (its
// other checks are then missing from the results).
enum class AfterFailure : std::uint8_t { go_on, drop_kernel };

inline constexpr int kDefaultRandom = 128;
inline constexpr int kDefaultRepeat = 64;
inline constexpr std::uint64_t kDefaultSeed = 7;
inline constexpr std::int64_t kLongestSeqlen = 65536;

struct Options {
  std::vector<const Implementation*> kernels;
  const Device* device = nullptr;  // kernels of another backend are skipped
  std::vector<Part> parts = {std::begin(kAllParts), std::end(kAllParts)};
  int random = kDefaultRandom;  // problems for each kernel and pass
  int repeat = kDefaultRepeat;  // launches that must leave the same bits
  // Every problem's own seed comes from this one and the problem's name or number.
  std::uint64_t seed = kDefaultSeed;
  std::string only;  // a glob over the names of checks, like "v2/random/*/bwd"; empty: all
  AfterFailure after_failure = AfterFailure::go_on;
  std::int64_t longest =
      kLongestSeqlen;  // shapes and random problems with longer ones are left out
};

// This names the check that failed if the device is gone: nothing after it can be checked.
inline constexpr const char* kDeviceLost = "device lost";

// Says what became of one check of one kernel.
struct Result {
  // It consists of kernel, part, and what tells it from others of the part: "v2/random/7/13/bwd".
  // No two checks of a backend share a name.
  std::string name;
  std::string kernel;
  Backend backend = Backend::cpu;
  Part part = Part::shapes;
  std::optional<Pass> pass;  // that was launched, if something was
  Outcome outcome = Outcome::passed;
  // This is what caught a failure: "oracle: dq", "guards", "inputs unchanged", "property:
  // causal-prefix", "repeats", "exception", kDeviceLost (then the last result).
  std::string check;
  // A failure has coordinate, got, want, bound, Problem::id(), config; a skipped check the reason.
  std::string message;
  std::string repro;  // of a failure: one command that runs this check again
  double seconds = 0.0;
};

// Is told about every check as it comes. All functions may be empty.
struct Observer {
  // Is called once, before all others, if there is anything to compile, with all that the checks
  // need. What it does not compile is compiled when the first check needs it, one unit at a time.
  std::function<void(const std::vector<CompileJob>& jobs)> compile;
  std::function<void(double total_weight)> planned;  // once, before the first check
  std::function<void(const std::string& name)> begins;
  std::function<void(const Result& result, double weight)> ended;
};

// Returns whether '*' (any characters, '/' too) and '?' (one) of the glob make it the text.
bool matches_glob(const std::string& glob, const std::string& text);

}  // namespace attnlab::verify
