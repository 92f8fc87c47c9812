// Converts monotonic counters, such as the bytes that each network device received, to the rate of
// their sum.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

namespace lockstep::tracking {

using SampleTime = std::chrono::steady_clock::time_point;

template <class Key>
class CounterRates {
 public:
  using Readings = std::map<Key, uint64_t>;

  // A counter contributes from its second reading on. nullopt if none does, if no time has passed,
  // or if a counter decreased (a reset).
  std::optional<double> per_second(Readings readings, SampleTime now) {
    const auto seconds = std::chrono::duration<double>(now - last_time_).count();
    uint64_t growth = 0;
    bool known = false, reset = false;
    for (const auto& [key, value] : readings) {
      const auto last = last_.find(key);
      if (last == last_.end()) continue;
      known = true;
      if (value < last->second)
        reset = true;
      else
        growth += value - last->second;
    }
    last_ = std::move(readings);
    last_time_ = now;
    if (!known || reset || seconds <= 0) return std::nullopt;
    return static_cast<double>(growth) / seconds;
  }

 private:
  Readings last_;
  SampleTime last_time_{};
};

}  // namespace lockstep::tracking
