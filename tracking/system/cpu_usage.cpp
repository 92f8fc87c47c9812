#include "tracking/system/cpu_usage.h"

#include "core/number_text.h"

namespace lockstep::tracking {
namespace {

// The fraction of time that was not idle, 0 to 100. Waiting for I/O is idle.
template <class Ticks>
std::optional<double> busy_percent(const Ticks& last, const Ticks& now) {
  constexpr size_t kIdle = 3, kIoWait = 4;
  uint64_t total = 0, idle = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] < last[i]) return std::nullopt;
    total += now[i] - last[i];
    if (i == kIdle || i == kIoWait) idle += now[i] - last[i];
  }
  if (total == 0) return std::nullopt;
  return 100.0 * static_cast<double>(total - idle) / static_cast<double>(total);
}

}  // namespace

CpuUsage::CpuUsage(const std::filesystem::path& root_of_proc)
    : stat_(root_of_proc / "stat"), loadavg_(root_of_proc / "loadavg") {}

void CpuUsage::sample(SystemValues& values) {
  if (auto text = reader_.read(stat_)) {
    std::string_view line;
    while (proc::next_line(*text, line) && line.starts_with("cpu")) sample_core(line, values);
  }
  sample_load(values);
}

void CpuUsage::sample_core(std::string_view line, SystemValues& values) {
  const auto name = proc::next_word(line);
  Ticks now{};
  for (auto& ticks : now) {
    const auto count = parse_number<uint64_t>(proc::next_word(line));
    if (!count) return;
    ticks = *count;
  }
  const auto last = last_.find(name);
  if (last == last_.end()) {
    last_.emplace(name, now);
    return;
  }
  const auto percent = busy_percent(last->second, now);
  last->second = now;
  if (!percent) return;
  const auto core = name.substr(3);
  values.emplace_back(
      core.empty() ? "system/cpu_percent" : "system/cpu." + std::string(core) + ".percent",
      *percent);
}

void CpuUsage::sample_load(SystemValues& values) {
  auto text = reader_.read(loadavg_);
  if (!text) return;
  for (const auto* name :
       {"system/load_average_1m", "system/load_average_5m", "system/load_average_15m"}) {
    const auto load = parse_number<double>(proc::next_word(*text));
    if (!load) return;
    values.emplace_back(name, *load);
  }
}

}  // namespace lockstep::tracking
