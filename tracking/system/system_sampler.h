// The state of one node while a run goes on: processors, memory, disk, network, the processes of
// the run, and every GPU. One sample is a list of metrics under system/; all names and units are in
// docs/system_metrics.md. What cannot be had is left out.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tracking/system/cpu_usage.h"
#include "tracking/system/disk_usage.h"
#include "tracking/system/gpu_watch.h"
#include "tracking/system/memory_usage.h"
#include "tracking/system/network_usage.h"
#include "tracking/system/run_processes.h"
#include "tracking/system/system_values.h"

namespace lockstep::tracking {

struct SystemSamplerOptions {
  std::filesystem::path root_of_proc = "/proc";
  std::filesystem::path root_of_sys = "/sys";
  std::filesystem::path disk = ".";  // whose file system is watched, such as the run directory
  // The processes that the run began with, asked at every sample. Empty: they are not watched.
  std::function<std::vector<int64_t>()> processes;
  // Also the memory of the processes with shared pages counted in parts. The kernel walks their
  // page tables for it: about a millisecond per 100 MB.
  bool with_pss = false;
  std::filesystem::path nvml = "libnvidia-ml.so.1";  // empty: GPUs are not watched
  std::chrono::milliseconds gpu_timeout{500};        // longest wait for them in one sample
  std::function<SampleTime()> clock = [] { return std::chrono::steady_clock::now(); };
};

// Thread: one at a time.
// Errors: none for what the system says or does not say.
// Cost: docs/system_metrics.md.
class SystemSampler {
 public:
  explicit SystemSampler(SystemSamplerOptions options = {});

  // Rates and percentages of time are those since the last sample; the first one has none.
  SystemValues sample();

  // Processes in this control group (where there is none: on this machine) that the kernel's
  // out-of-memory killer ended since this object was made.
  int64_t oom_kills() { return memory_.oom_kills(); }

  // What the GPUs of the last sample are called, by index; empty where unknown.
  const std::vector<std::string>& gpu_names() const { return gpu_names_; }

 private:
  void add_gpus(SystemValues& values);

  SystemSamplerOptions options_;
  CpuUsage cpu_;
  MemoryUsage memory_;
  DiskUsage disk_;
  NetworkUsage network_;
  RunProcesses processes_;
  GpuWatch gpus_;
  std::vector<std::string> gpu_names_;
};

}  // namespace lockstep::tracking
