#include "trainer/metrics/device_peak.h"

#include <array>
#include <string_view>

namespace lockstep::trainer {
namespace {

struct GpuPeak {
  std::string_view name;  // a part of it; the first that matches counts
  double float32, half;   // 10^12 per second
};

constexpr std::array<GpuPeak, 11> kGpuPeaks = {{{"B200", 75, 2250},
                                                {"H200", 67, 989},
                                                {"H100 PCIe", 51, 756},
                                                {"H100 NVL", 60, 835},
                                                {"H100", 67, 989},
                                                {"A100", 19.5, 312},
                                                {"L40S", 91.6, 362},
                                                {"A10", 31.2, 125},
                                                {"L4", 30.3, 121},
                                                {"V100", 15.7, 125},
                                                {"T4", 8.1, 65}}};

}  // namespace

std::optional<double> peak_flops_of_gpu(const std::string& name, bool is_half) {
  constexpr double kTera = 1e12;
  for (const auto& gpu : kGpuPeaks) {
    const auto found = name.find(gpu.name);
    if (found == std::string::npos) continue;
    // "A10" is not "A100", nor "L4" "L40".
    const auto next = found + gpu.name.size();
    if (next < name.size() && name[next] != ' ' && name[next] != '-') continue;
    return kTera * (is_half ? gpu.half : gpu.float32);
  }
  return std::nullopt;
}

}  // namespace lockstep::trainer
