// Runs a process on each of several GPUs of this machine, each with a shard of the sweep.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/session/own_process.h"
#include "kernels/api/device.h"

namespace attnlab {

// Chooses GPUs: "all", or their numbers, "0,2". Throws UsageError, naming --devices.
std::vector<Device> choose_devices(const std::string& text, const std::vector<Device>& devices);

// Chooses among the GPUs of this machine, for a run on `backend`. Throws UsageError as above, where
// there is none, and where the run is on a CPU.
std::vector<Device> choose_gpus(const std::string& text, Backend backend);

// Returns the word that shows a process this GPU alone: its place in `visible`
// (CUDA_VISIBLE_DEVICES of this process, "" where it is not set).
std::string visible_device(const Device& device, const std::string& visible);

struct DeviceRuns {
  std::vector<Device> devices;       // one for each shard
  std::vector<std::string> command;  // attnlab run, without --devices, --out, --resume
  std::filesystem::path program = OwnProcess().program;
  std::filesystem::path records;  // gets the records of all
  bool resumes = false;
  bool shows_progress = true;
};

// Names the file of a shard, which lies beside that of all: r.1of2.jsonl beside r.jsonl.
std::filesystem::path part_file(const std::filesystem::path& records, std::size_t part,
                                std::size_t of);

// Runs the shards, all at once, holding the DeviceLock of each GPU, and merges their records with
// those that are there. What each process says is in a file beside its records. Throws UsageError
// for unlike GPUs, records that are there where nobody said to resume, or those of another number
// of GPUs; std::runtime_error where another program measures on a GPU, or a process broke off.
// Hands a signal on, and ends by it once all processes have.
void run_on_devices(const DeviceRuns& runs);

}  // namespace attnlab
