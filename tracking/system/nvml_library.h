// NVIDIA's management library, loaded at run time: metrics of every GPU of this machine. The
// functions and structures used are declared here according to NVML's documented ABI
// (docs.nvidia.com/deploy/nvml-api), so that building requires neither its headers nor a driver.
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
  std::string name;                                    // "NVIDIA H200"; empty if unknown
  std::vector<std::pair<const char*, double>> values;  // "utilization" etc., if available;
                                                       // see docs/system_metrics.md
};

// Thread: one at a time. Any call may block if the driver does.
class NvmlLibrary {
 public:
  // nullptr if there is no such library, or it is not NVML. Does not call the driver.
  static std::unique_ptr<NvmlLibrary> open(const std::filesystem::path& library);
  ~NvmlLibrary();
  NvmlLibrary(NvmlLibrary&&) = delete;

  // Connects to the driver, which can take seconds. False if there is none.
  bool start();

  // All GPUs that respond. `pids`: processes whose memory is reported.
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
