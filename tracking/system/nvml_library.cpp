#include "tracking/system/nvml_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <optional>

namespace lockstep::tracking {
namespace {

// Names and layouts are NVML's, without its prefix.
constexpr int kNvmlSuccess = 0;
constexpr int kTemperatureOfGpu = 0;
constexpr int kClockSm = 1, kClockMemory = 2;
constexpr int kUncorrectedError = 1, kVolatileEcc = 0;
constexpr unsigned kMaxGpus = 1024, kMaxGpuProcesses = 1024;
constexpr auto kNotAvailable = ~0ULL;

using NvmlDevice = struct NvmlDeviceState*;

struct NvmlUtilization {
  unsigned gpu = 0, memory = 0;  // percent of the time
};

struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;  // bytes
};

struct NvmlProcessInfo {
  unsigned pid = 0;
  unsigned long long used_gpu_memory = 0;  // bytes, or kNotAvailable
  unsigned gpu_instance_id = 0, compute_instance_id = 0;
};

template <class Function>
bool find_symbol(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

// Functions that a driver lacks are nullptr.
struct NvmlLibrary::Functions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, NvmlDevice*) = nullptr;
  int (*name)(NvmlDevice, char*, unsigned) = nullptr;
  int (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
  int (*power)(NvmlDevice, unsigned*) = nullptr;
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*ecc_errors)(NvmlDevice, int, int, unsigned long long*) = nullptr;
  int (*processes)(NvmlDevice, unsigned*, NvmlProcessInfo*) = nullptr;

  bool find(void* library) {
    find_symbol(library, "nvmlDeviceGetName", name);
    find_symbol(library, "nvmlDeviceGetUtilizationRates", utilization);
    find_symbol(library, "nvmlDeviceGetMemoryInfo", memory);
    find_symbol(library, "nvmlDeviceGetTemperature", temperature);
    find_symbol(library, "nvmlDeviceGetPowerUsage", power);
    find_symbol(library, "nvmlDeviceGetClockInfo", clock);
    find_symbol(library, "nvmlDeviceGetTotalEccErrors", ecc_errors);
    if (!find_symbol(library, "nvmlDeviceGetComputeRunningProcesses_v3", processes))
      find_symbol(library, "nvmlDeviceGetComputeRunningProcesses_v2", processes);
    return find_symbol(library, "nvmlInit_v2", init) &&
           find_symbol(library, "nvmlShutdown", shutdown) &&
           find_symbol(library, "nvmlDeviceGetCount_v2", count) &&
           find_symbol(library, "nvmlDeviceGetHandleByIndex_v2", handle);
  }

  // Bytes of device memory that `pids` use. nullopt if none of them is listed: in a container the
  // driver may have other IDs for them.
  std::optional<double> memory_of(NvmlDevice device, const std::vector<int64_t>& pids) const {
    std::array<NvmlProcessInfo, kMaxGpuProcesses> infos;
    unsigned num_infos = kMaxGpuProcesses;
    if (!processes || processes(device, &num_infos, infos.data()) != kNvmlSuccess)
      return std::nullopt;
    std::optional<double> bytes;
    for (unsigned i = 0; i < std::min(num_infos, kMaxGpuProcesses); ++i) {
      const bool ours = std::find(pids.begin(), pids.end(), infos[i].pid) != pids.end();
      if (ours && infos[i].used_gpu_memory != kNotAvailable)
        bytes = bytes.value_or(0) + static_cast<double>(infos[i].used_gpu_memory);
    }
    return bytes;
  }
};

std::unique_ptr<NvmlLibrary> NvmlLibrary::open(const std::filesystem::path& library) {
  void* opened = library.empty() ? nullptr : ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened) return nullptr;
  auto functions = std::make_unique<Functions>();
  if (functions->find(opened))
    return std::unique_ptr<NvmlLibrary>(new NvmlLibrary(opened, std::move(functions)));
  ::dlclose(opened);
  return nullptr;
}

NvmlLibrary::NvmlLibrary(void* library, std::unique_ptr<Functions> functions)
    : library_(library), functions_(std::move(functions)) {}

NvmlLibrary::~NvmlLibrary() {
  if (started_) functions_->shutdown();
  ::dlclose(library_);
}

bool NvmlLibrary::start() {
  started_ = started_ || functions_->init() == kNvmlSuccess;
  return started_;
}

std::vector<GpuReading> NvmlLibrary::read(const std::vector<int64_t>& pids) {
  std::vector<GpuReading> readings;
  unsigned count = 0;
  if (!started_ || functions_->count(&count) != kNvmlSuccess) return readings;
  for (unsigned index = 0; index < std::min(count, kMaxGpus); ++index) {
    auto reading = read_gpu(index, pids);
    if (!reading.values.empty()) readings.push_back(std::move(reading));
  }
  return readings;
}

// Omits values whose call fails (not supported by this GPU, or the GPU is lost).
GpuReading NvmlLibrary::read_gpu(unsigned index, const std::vector<int64_t>& pids) {
  GpuReading reading{.index = index};
  const auto& nvml = *functions_;
  NvmlDevice device = nullptr;
  if (nvml.handle(index, &device) != kNvmlSuccess) return reading;
  const auto add = [&](const char* name, double value) {
    reading.values.emplace_back(name, value);
  };

  std::array<char, 96> name{};
  if (nvml.name && nvml.name(device, name.data(), name.size() - 1) == kNvmlSuccess)
    reading.name = name.data();
  NvmlUtilization utilization;
  if (nvml.utilization && nvml.utilization(device, &utilization) == kNvmlSuccess)
    add("utilization", utilization.gpu);
  NvmlMemory memory;
  if (nvml.memory && nvml.memory(device, &memory) == kNvmlSuccess) {
    add("memory_used_bytes", static_cast<double>(memory.used));
    add("memory_total_bytes", static_cast<double>(memory.total));
  }
  unsigned number = 0;
  if (nvml.temperature && nvml.temperature(device, kTemperatureOfGpu, &number) == kNvmlSuccess)
    add("temperature_celsius", number);
  if (nvml.power && nvml.power(device, &number) == kNvmlSuccess)  // milliwatts
    add("power_watts", number / 1000.0);
  if (nvml.clock && nvml.clock(device, kClockSm, &number) == kNvmlSuccess)
    add("clock_sm_mhz", number);
  if (nvml.clock && nvml.clock(device, kClockMemory, &number) == kNvmlSuccess)
    add("clock_memory_mhz", number);
  unsigned long long errors = 0;
  if (nvml.ecc_errors &&
      nvml.ecc_errors(device, kUncorrectedError, kVolatileEcc, &errors) == kNvmlSuccess)
    add("ecc_errors", static_cast<double>(errors));
  if (const auto bytes = nvml.memory_of(device, pids)) add("run_memory_bytes", *bytes);
  return reading;
}

}  // namespace lockstep::tracking
