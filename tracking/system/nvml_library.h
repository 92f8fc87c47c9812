// NVIDIA's management library, loaded at run time: what every GPU of this machine does. The few
// functions and structures used are declared here after NVML's documented binary interface
// (docs.nvidia.com/deploy/nvml-api), so that neither its headers nor a driver are needed to build.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::tracking {

struct GpuReading {
  unsigned index = 0;                                  // NVML's, in the order of the PCI bus
  std::string name;                                    // "NVIDIA H200"; empty when unknown
  std::vector<std::pair<const char*, double>> values;  // "utilization" and so on, where they can be
                                                       // had; see docs/system_metrics.md
};

// Thread: one at a time. Any call may hang when the driver does.
class NvmlLibrary {
 public:
  // nullptr when there is no such library, or it is not NVML. Does not yet talk to the driver.
  static std::unique_ptr<NvmlLibrary> open(const std::filesystem::path& library);
  ~NvmlLibrary();
  NvmlLibrary(NvmlLibrary&&) = delete;

  // Connects to the driver, which can take seconds. False when there is none.
  bool start();

  // All GPUs that answer. `pids`: whose memory is that of the run.
  std::vector<GpuReading> read(const std::vector<int64_t>& pids);

 private:
  struct Functions;

  NvmlLibrary(void* library, std::unique_ptr<Functions> functions);
  GpuReading read_gpu(unsigned index, const std::vector<int64_t>& pids);

  void* library_;
  std::unique_ptr<Functions> functions_;
  bool started_ = false;
};

}  // namespace lockstep::tracking
