// Counters that only grow, such as the bytes that each network device received, as growth per
// second of them all.
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

  // Counts from the second reading of a counter on. nullopt when there is none such, when no time
  // has passed, or when a counter went backwards (a reset).
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
