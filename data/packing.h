// Packs sequences of different lengths into windows. No LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::data {

// Windows and the items in each.
class PackedWindows {
 public:
  // Best fit, longest first: each item, by decreasing length, is added to the window with the least
  // room in which it fits. `lengths`: of the items, each from 1 to `capacity`. Windows are ordered
  // by their first item, and items in a window by number.
  PackedWindows(std::span<const int64_t> lengths, int64_t capacity);
  PackedWindows() = default;

  size_t size() const { return ends_.size(); }
  std::span<const int64_t> at(size_t window) const;

 private:
  std::vector<int64_t> items_, ends_;
};

// Writes 0, 0, ..., 1, 1, ...: the number of the item at each position, for items of `lengths`; the
// padding after them counts as one more.
void write_document_numbers(std::span<const int64_t> lengths, std::span<int64_t> out);

}  // namespace lockstep::data
