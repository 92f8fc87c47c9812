// Samples the state of one node during a run: CPUs, memory, disk, network, the processes of the
// run, and every GPU. A sample is a list of metrics under system/; docs/system_metrics.md has all
// names and units. Values that are not available are omitted.
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
  std::filesystem::path disk = ".";  // a path on the sampled file system, e.g. the run directory
  // Returns the root processes of the run; called for every sample. Empty: processes are not
  // sampled.
  std::function<std::vector<int64_t>()> processes;
  // Also the proportional set size, which divides shared pages among processes. The kernel walks
  // their page tables for it: about a millisecond per 100 MB.
  bool with_pss = false;
  std::filesystem::path nvml = "libnvidia-ml.so.1";  // empty: GPUs are not watched
  std::chrono::milliseconds gpu_timeout{500};        // maximum wait in one sample
  std::function<SampleTime()> clock = [] { return std::chrono::steady_clock::now(); };
};

// Thread: one at a time.
// Errors: unavailable values are omitted.
// Cost: docs/system_metrics.md.
class SystemSampler {
 public:
  explicit SystemSampler(SystemSamplerOptions options = {});

  // Rates and percentages cover the time since the last sample; the first one has none.
  SystemValues sample();

  // Processes in this control group (or on this machine, without one) that the kernel's
  // out-of-memory killer killed since this object was created.
  int64_t oom_kills() { return memory_.oom_kills(); }

 private:
  void add_gpus(SystemValues& values);

  SystemSamplerOptions options_;
  CpuUsage cpu_;
  MemoryUsage memory_;
  DiskUsage disk_;
  NetworkUsage network_;
  RunProcesses processes_;
  GpuWatch gpus_;
};

}  // namespace lockstep::tracking
