// A hash table from pairs of numbers to two numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::formats {

class PairTable {
 public:
  struct Entry {
    uint64_t key = kNone;
    int32_t order = 0, result = 0;
  };

  // Replaces the entry of a pair that exists. The numbers must not both be 0xFFFFFFFF.
  void set(uint32_t first, uint32_t second, int32_t order, int32_t result) {
    if (2 * (size_ + 1) > table_.size()) grow();
    auto& entry = table_[slot_of(key_of(first, second))];
    if (entry.key == kNone) ++size_;
    entry = {key_of(first, second), order, result};
  }

  // Null if there is none.
  const Entry* find(uint32_t first, uint32_t second) const {
    const auto& entry = table_[slot_of(key_of(first, second))];
    return entry.key == kNone ? nullptr : &entry;
  }

 private:
  static constexpr uint64_t kNone = UINT64_MAX;

  static uint64_t key_of(uint32_t first, uint32_t second) { return uint64_t{first} << 32 | second; }

  size_t slot_of(uint64_t key) const {
    const auto mask = table_.size() - 1;
    auto slot = (key * 0x9E37'79B9'7F4A'7C15 >> 32) & mask;
    while (table_[slot].key != key && table_[slot].key != kNone) slot = (slot + 1) & mask;
    return slot;
  }

  void grow() {
    std::vector<Entry> old(2 * table_.size());
    old.swap(table_);
    for (const auto& entry : old)
      if (entry.key != kNone) table_[slot_of(entry.key)] = entry;
  }

  std::vector<Entry> table_ = std::vector<Entry>(64);
  size_t size_ = 0;
};

}  // namespace lockstep::formats
