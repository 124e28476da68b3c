// Implements attnlab doctor: says what this machine can measure with, and what it lacks.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/base/file_system.h"
#include "harness/plan/sweep.h"
#include "harness/run/peer_process.h"
#include "kernels/api/diagnosis.h"
#include "kernels/api/registry.h"

namespace attnlab {

inline constexpr const char* kDoctorSchema = "attnlab.doctor/1";

// Holds what was looked at; a backend that nobody asked for has no lines.
struct Checkup {
  BackendChoice asked = BackendChoice::automatic;
  bool expects_gpu = false;       // the machine seems to have one
  std::vector<Diagnosis> common;  // of the program and of peers
  std::vector<Diagnosis> cpu;
  std::vector<Diagnosis> cuda;
};

// Looks at the machine, and puts timers and counters to tests of known size. Takes seconds, longer
// where PyTorch is imported from a cold disk. A check that throws becomes a line.
Checkup check_up(BackendChoice asked, PeerProcesses& peers);

// These are the parts of check_up(). `device` is one of available_devices().
Diagnosis diagnose_build();
Diagnosis diagnose_peer(PeerProcess& peer, const std::string& what, bool wants_gpu);
std::vector<Diagnosis> diagnose_cpu(const Device& device);
std::vector<Diagnosis> diagnose_instruments(const Device& device);

// Tells what keeps a second writer from a file of records.
struct FolderLocks {
  FileSystem system;
  bool refuses_second = false;  // a lock that is held refuses a second open file
  std::string trouble;          // why it could not be tried, "" if it was
};
FolderLocks try_locks(const std::filesystem::path& folder);
Diagnosis diagnose_locks(const FolderLocks& locks);

// Runs a case of 256 tokens as `attnlab run` would, by every kernel of the device's backend that
// takes it, verified and timed. Returns Health::missing if one of them fails, or there is none.
Diagnosis diagnose_case(const Registry& registry, const Device& device, const std::string& what);

// Returns whether nothing essential is missing.
bool works(const std::vector<Diagnosis>& lines);

// Returns kExitEnvironment if something essential is missing of a backend that was asked for, else
// kExitGood. `auto` asks for the CPU, and for CUDA where the machine seems to have a GPU.
int exit_code(const Checkup& checkup);

// Renders a line for each check, remedies below what is not ok, and the verdict as the last line.
std::string render(const Checkup& checkup);
nlohmann::ordered_json to_json(const Checkup& checkup);

}  // namespace attnlab
