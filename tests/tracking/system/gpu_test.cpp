#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <new>
#include <stdexcept>
#include <thread>

#include "tests/tracking/system/fake_nvml.h"
#include "tests/tracking/system/made_system.h"
#include "tracking/system/gpu_watch.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

// The fake library and its configuration.
class Vendor {
 public:
  Vendor() : library_(::dlopen(FAKE_NVML, RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) throw std::runtime_error(::dlerror());
    nvml = new (::dlsym(library_, "fake_nvml")) FakeNvml;
  }
  ~Vendor() { ::dlclose(library_); }
  Vendor(Vendor&&) = delete;

  FakeNvml* nvml = nullptr;

 private:
  void* library_;
};

SystemSamplerOptions with_gpus(MadeSystem& system) {
  auto options = system.options();
  options.nvml = FAKE_NVML;
  options.gpu_timeout = std::chrono::seconds(20);
  return options;
}

// A thread from which the sampler detached counts a moment later.
bool becomes(const std::atomic<int>& count, int value) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (count != value && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return count == value;
}

NamedValues gpu_values(SystemSampler& sampler) {
  auto values = by_name(sampler.sample());
  std::erase_if(values, [](const auto& item) { return !item.first.starts_with("system/gpu."); });
  return values;
}

}  // namespace

TEST_CASE("gpu: metrics of every GPU, in the documented units") {
  Vendor vendor;
  MadeSystem system;
  system.write({.pid = 4242});
  vendor.nvml->process = 4242;
  auto options = with_gpus(system);
  options.processes = [] { return std::vector<int64_t>{4242}; };
  {
    SystemSampler sampler(options);
    NamedValues expected;
    for (const unsigned gpu : {0u, 1u}) {
      const auto prefix = fmt::format("system/gpu.{}.", gpu);
      expected[prefix + "utilization"] = 37 + gpu;
      expected[prefix + "memory_used_bytes"] = 30'000'000'000 + gpu;
      expected[prefix + "memory_total_bytes"] = 80'000'000'000;
      expected[prefix + "temperature_celsius"] = 61;
      expected[prefix + "power_watts"] = 412.345;
      expected[prefix + "clock_sm_mhz"] = 1'980;
      expected[prefix + "clock_memory_mhz"] = 3'201;
      expected[prefix + "ecc_errors"] = 4;
      expected[prefix + "run_memory_bytes"] = 5'000'000;
    }
    CHECK(gpu_values(sampler) == expected);
  }
  CHECK(vendor.nvml->num_inits == 1);
  CHECK(vendor.nvml->num_shutdowns == 1);
}

TEST_CASE("gpu: names") {
  Vendor vendor;
  GpuWatch watch(FAKE_NVML, std::chrono::seconds(20));
  watch.begin_reading({});
  std::vector<std::string> names;
  for (const auto& gpu : watch.end_reading()) names.push_back(gpu.name);
  CHECK(names == std::vector<std::string>{"Fake GPU 0", "Fake GPU 1"});
}

TEST_CASE("gpu: memory of the run is omitted if its processes are not listed") {
  Vendor vendor;
  MadeSystem system;
  SystemSampler sampler(with_gpus(system));
  const auto values = gpu_values(sampler);
  CHECK(values.size() == 16);
  CHECK_FALSE(values.contains("system/gpu.0.run_memory_bytes"));
}

TEST_CASE("gpu: a lost GPU, and values that a GPU does not support, are omitted") {
  Vendor vendor;
  MadeSystem system;
  SystemSampler sampler(with_gpus(system));
  CHECK(gpu_values(sampler).size() == 16);
  vendor.nvml->lost_gpu = 0;
  auto values = gpu_values(sampler);
  CHECK(values.size() == 8);
  CHECK(values.at("system/gpu.1.utilization") == 38);
  vendor.nvml->lost_gpu = -1;
  vendor.nvml->name_only = true;
  values = gpu_values(sampler);
  CHECK(values.size() == 4);
  CHECK(values.at("system/gpu.0.memory_used_bytes") == 30'000'000'000);
  vendor.nvml->num_gpus = 0;
  CHECK(gpu_values(sampler).empty());
}

TEST_CASE("gpu: no driver, no library, or another library") {
  Vendor vendor;
  MadeSystem system;
  system.write("proc/loadavg", "1 2 3 4/5 6\n");
  vendor.nvml->init_result = 9;
  auto options = with_gpus(system);
  for (const std::string library : {FAKE_NVML, "/nonexistent/libnvidia-ml.so.1", "libm.so.6", ""}) {
    options.nvml = library;
    SystemSampler sampler(options);
    for (int i = 0; i < 2; ++i) {
      const auto values = by_name(sampler.sample());
      CHECK(values.at("system/load_average_1m") == 1);
      CHECK_FALSE(values.contains("system/gpu.0.utilization"));
    }
  }
  CHECK(vendor.nvml->num_shutdowns == 0);
}

TEST_CASE("gpu: a blocked driver costs one wait, and nothing else") {
  Vendor vendor;
  MadeSystem system;
  system.write("proc/loadavg", "1 2 3 4/5 6\n");
  auto options = with_gpus(system);
  options.gpu_timeout = std::chrono::seconds(1);
  {
    SystemSampler sampler(options);
    vendor.nvml->hang = true;
    // With a wait each, these would exceed the time limit of the test.
    for (int i = 0; i < 1000; ++i)
      CHECK(by_name(sampler.sample()).at("system/load_average_1m") == 1);
    vendor.nvml->hang = false;
    // It recovers: the blocked reading ends, and a later one is returned.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    size_t found = 0;
    while (found == 0 && std::chrono::steady_clock::now() < end) found = gpu_values(sampler).size();
    CHECK(found == 16);
  }
  CHECK(becomes(vendor.nvml->num_shutdowns, 1));
}

TEST_CASE("gpu: a sampler can be destroyed while the driver is blocked") {
  Vendor vendor;
  MadeSystem system;
  auto options = with_gpus(system);
  options.gpu_timeout = std::chrono::milliseconds(20);
  vendor.nvml->hang = true;
  {
    SystemSampler sampler(options);
    sampler.sample();
    REQUIRE(
        becomes(vendor.nvml->num_hanging, 1));  // on a busy machine this may happen after the wait
  }
  CHECK(vendor.nvml->num_shutdowns == 0);
  vendor.nvml->hang = false;
  CHECK(becomes(vendor.nvml->num_shutdowns, 1));
}
