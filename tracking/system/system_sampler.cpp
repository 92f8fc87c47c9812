#include "tracking/system/system_sampler.h"

namespace lockstep::tracking {

SystemSampler::SystemSampler(SystemSamplerOptions options)
    : options_(std::move(options)),
      cpu_(options_.root_of_proc),
      memory_(options_.root_of_proc, options_.root_of_sys),
      disk_(options_.root_of_proc, options_.root_of_sys, options_.disk),
      network_(options_.root_of_proc, options_.root_of_sys),
      processes_(options_.root_of_proc, options_.with_pss),
      gpus_(options_.nvml, options_.gpu_timeout) {}

// The GPUs are read concurrently with the rest.
SystemValues SystemSampler::sample() {
  SystemValues values;
  const auto roots = options_.processes ? options_.processes() : std::vector<int64_t>{};
  processes_.sample(options_.clock(), roots, values);
  gpus_.begin_reading(processes_.pids());
  cpu_.sample(values);
  memory_.sample(values);
  disk_.sample(options_.clock(), values);
  network_.sample(options_.clock(), values);
  add_gpus(values);
  return values;
}

void SystemSampler::add_gpus(SystemValues& values) {
  for (const auto& gpu : gpus_.end_reading()) {
    const auto prefix = "system/gpu." + std::to_string(gpu.index) + ".";
    for (const auto& [name, value] : gpu.values) values.emplace_back(prefix + name, value);
  }
}

}  // namespace lockstep::tracking
