// Texts that occur in many runs (names of metrics, keys and values of configs), each stored
// once. The number of a text never changes and is never reused: the table only grows.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/system/mutex.h"

namespace lockstep::catalog {

// Thread: any.
class NameTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t add(std::string_view text) {
    if (const auto known = find(text); known != kNone) return known;
    const WriterLock lock(mutex_);
    if (const auto it = numbers_.find(text); it != numbers_.end()) return it->second;
    const auto number = static_cast<uint32_t>(texts_.size());
    numbers_.emplace(texts_.emplace_back(text), number);
    return number;
  }

  // kNone if it was never added.
  uint32_t find(std::string_view text) const {
    const ReaderLock lock(mutex_);
    const auto it = numbers_.find(text);
    return it == numbers_.end() ? kNone : it->second;
  }

  // Valid for the lifetime of the table.
  const std::string& text(uint32_t number) const {
    const ReaderLock lock(mutex_);
    return texts_.at(number);
  }

 private:
  mutable SharedMutex mutex_;
  std::deque<std::string> texts_ GUARDED_BY(mutex_);
  // Views into texts_.
  std::unordered_map<std::string_view, uint32_t> numbers_ GUARDED_BY(mutex_);
};

}  // namespace lockstep::catalog
