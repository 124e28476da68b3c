// Compiles kernels when they are needed: says what a kernel asks for, and what came of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/api/device.h"

namespace attnlab {

// Describes a product of tiles by wgmma, as the schedule of a kernel has it: `steps` instructions
// of 64 x columns x `depth`, all unrolled.
struct WarpgroupProduct {
  std::string name;             // "S = Q K^T"
  bool a_in_registers = false;  // else both factors are in shared memory
  int columns = 0;
  int steps = 0;
  int places = 0;  // of the text that start one, each instance of a template counted
  int depth = 16;  // 32 of e4m3
};

// KernelEntry is one entry point of a unit, and how it is launched (which decides how many blocks
// fit a multiprocessor).
struct KernelEntry {
  std::string name;  // extern "C"
  int threads = 0;   // of a block
  std::uint64_t dynamic_shared_bytes = 0;
  std::vector<WarpgroupProduct> products = {};  // empty: nothing is said of them
};

// KernelUnit is one translation unit: a few lines that include a kernel's header by its path in the
// tree ("kernels/naive/forward.cuh"), state a configuration, and define the entries.
struct KernelUnit {
  std::string name;  // for people, and for the name of the file in the cache: "naive-f16"
  std::string source;
  std::vector<KernelEntry> entries;
  std::vector<std::string> options;  // beside those that every unit gets
  // Its registers must not spill and ptxas must have nothing to say (C7508, ...): else it fails.
  bool must_be_clean = true;
  // Its headers are those that are built in, whatever --kernel-sources says: a judge's.
  bool always_built_in = false;
};

// CompiledEntry is what the compiler's log says of an entry.
struct CompiledEntry {
  KernelEntry entry;
  int registers = 0;  // a thread
  std::int64_t spill_store_bytes = 0;
  std::int64_t spill_load_bytes = 0;
  std::int64_t stack_bytes = 0;
  std::int64_t static_shared_bytes = 0;
  int blocks_per_multiprocessor = 0;  // that fit at once; 0 also where the arch is not known
  double occupancy = 0.0;             // their threads, of those that a multiprocessor can hold
};

struct Compilation {
  std::string unit;      // KernelUnit::name
  std::string arch;      // "sm_90a"
  std::string compiler;  // "NVRTC 13.0"
  // This hashes the unit's source and all it includes, in hex; empty where nothing was compiled.
  std::string text_sha256;
  double seconds = 0.0;  // that the compiler took, also if it was in an earlier process
  bool from_cache = false;
  std::vector<CompiledEntry> entries;
  std::vector<std::string> advisories;  // of ptxas: "C7508: ..."; and all warnings
  std::string error;  // empty: all is well; else the compiler's words, with the kernel's own file
                      // and line
};

struct CompileJob {
  KernelUnit unit;
  std::string arch;
};

// CompilerSettings is what all units of a process are compiled with.
struct CompilerSettings {
  std::string cache_folder;  // empty: $XDG_CACHE_HOME/attnlab, or ~/.cache/attnlab
  std::string library;       // path of another NVRTC than the one that is found
  // The kernels/ of this tree, or if empty of $ATTNLAB_KERNEL_SOURCES, replaces what is built in.
  std::string source_folder;
  bool debug = false;  // for cuda-gdb: no optimisation, and no unit need be clean
  // The verb compile-worker of this program, or if empty of this one, is run_compile_worker().
  std::string worker_program;
};

// Applies to what is compiled from now on; not while something is.
void set_compiler(const CompilerSettings& settings);
const CompilerSettings& compiler_settings();

// Returns the text of the GPU kernels that would be compiled, by path in the tree; none in a build
// without CUDA. Throws std::runtime_error where a source folder cannot be read.
std::map<std::string, std::string> kernel_texts();

// Returns the folder for what is made once for a machine: cache_folder of the settings, else
// $XDG_CACHE_HOME/attnlab, else ~/.cache/attnlab. Throws std::runtime_error where there is none of
// them.
std::string cache_folder();

// Returns "sm_90a" for compute capability 90.
std::string arch_of(const Device& device);

// Returns the chip of an arch, without a GPU: what units() reads of a Device. Throws
// std::invalid_argument with the known ones.
Device device_of_arch(const std::string& arch);

// Compiles what the cache lacks, `workers` at a time, each in a process of its own; jobs with the
// same code once. Returns one result a job, in their order; `done` is called as each comes, and may
// throw to stop. A worker that dies is the error of its job; Ctrl-C ends all that are left with
// errors. Throws std::runtime_error if there are jobs and no compiler at all.
std::vector<Compilation> compile_ahead(std::span<const CompileJob> jobs, int workers,
                                       const std::function<void(const Compilation&)>& done);

// Returns the code that the compiler made of a job, from the cache: also of a unit that is not as
// clean as it must be. It is empty where there is none. Throws std::runtime_error like
// compile_ahead().
std::string cubin_of(const CompileJob& job);

// Returns the path of a program of CUDA's toolkit, like nvdisasm: of PATH, else of the toolkits and
// wheels in which CUDA's libraries are looked for. It is empty where nobody has it.
std::string find_cuda_program(const std::string& name);

// Does a worker process's work: it reads jobs from standard input, a socket, and writes results to
// standard output, in a form that only compile_ahead() knows. Returns the exit code of the process.
int run_compile_worker();

}  // namespace attnlab
