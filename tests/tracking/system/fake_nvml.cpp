#include "tests/tracking/system/fake_nvml.h"

#include <cstdint>
#include <cstring>
#include <thread>

namespace {

constexpr int kOk = 0, kInvalid = 2, kNotSupported = 3, kTooSmall = 7, kLost = 15;

}  // namespace

extern "C" {

lockstep::tracking::FakeNvml fake_nvml;

struct FakeUtilization {
  unsigned gpu, memory;
};
struct FakeMemory {
  unsigned long long total, free, used;
};
struct FakeProcess {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

// A device is its index plus one.
static unsigned index_of(void* device) {
  return static_cast<unsigned>(reinterpret_cast<uintptr_t>(device) - 1);
}

static int answer(void* device) {
  if (static_cast<int>(index_of(device)) == fake_nvml.lost_gpu) return kLost;
  return fake_nvml.name_only ? kNotSupported : kOk;
}

int nvmlInit_v2() {
  if (fake_nvml.init_result == 0) ++fake_nvml.num_inits;
  return fake_nvml.init_result;
}

int nvmlShutdown() {
  ++fake_nvml.num_shutdowns;
  return kOk;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  ++fake_nvml.num_hanging;
  while (fake_nvml.hang) std::this_thread::yield();
  --fake_nvml.num_hanging;
  *count = fake_nvml.num_gpus;
  return kOk;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<uintptr_t>(index + 1));
  return index < fake_nvml.num_gpus ? kOk : kInvalid;
}

int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  const char text[] = "Fake GPU 0";
  if (length < sizeof text) return kTooSmall;
  std::memcpy(name, text, sizeof text);
  name[9] = static_cast<char>('0' + index_of(device));
  return answer(device);
}

int nvmlDeviceGetUtilizationRates(void* device, FakeUtilization* rates) {
  *rates = {37 + index_of(device), 12};
  return answer(device);
}

int nvmlDeviceGetMemoryInfo(void* device, FakeMemory* memory) {
  *memory = {80'000'000'000, 50'000'000'000, 30'000'000'000ULL + index_of(device)};
  const auto result = answer(device);
  return result == kNotSupported ? kOk : result;
}

int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  *celsius = 61;
  return sensor == 0 ? answer(device) : kInvalid;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 412'345;
  return answer(device);
}

int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* mhz) {
  *mhz = clock == 1 ? 1'980 : 3'201;
  return answer(device);
}

int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* errors) {
  *errors = 4;
  return type == 1 && counter == 0 ? answer(device) : kInvalid;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, FakeProcess* processes) {
  if (*count < 3) return kTooSmall;
  processes[0] = {1, 1'000, ~0U, ~0U};
  processes[1] = {fake_nvml.process, 5'000'000, ~0U, ~0U};
  processes[2] = {fake_nvml.process, ~0ULL, ~0U, ~0U};  // not available
  *count = 3;
  return answer(device);
}
}
