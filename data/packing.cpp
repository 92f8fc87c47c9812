#include "data/packing.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::data {

PackedWindows::PackedWindows(std::span<const int64_t> lengths, int64_t capacity) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length = [&](int64_t item) { return lengths[static_cast<size_t>(item)]; };
  std::ranges::stable_sort(order, std::greater(), length);
  std::vector<std::vector<int64_t>> windows;
  std::set<std::pair<int64_t, size_t>> room;  // what is left of each window
  for (const auto item : order) {
    check(length(item) >= 1 && length(item) <= capacity, "an item does not fit a window");
    auto best = room.lower_bound({length(item), 0});
    if (best == room.end()) {
      windows.emplace_back();
      best = room.emplace(capacity, windows.size() - 1).first;
    }
    const auto [left, window] = *best;
    room.erase(best);
    windows[window].push_back(item);
    if (left > length(item)) room.emplace(left - length(item), window);
  }
  for (auto& window : windows) std::ranges::sort(window);
  std::ranges::sort(windows, {}, [](const auto& window) { return window.front(); });
  for (const auto& window : windows) {
    items_.insert(items_.end(), window.begin(), window.end());
    ends_.push_back(static_cast<int64_t>(items_.size()));
  }
}

std::span<const int64_t> PackedWindows::at(size_t window) const {
  const auto begin = window == 0 ? 0 : ends_[window - 1];
  return std::span(items_).subspan(static_cast<size_t>(begin),
                                   static_cast<size_t>(ends_[window] - begin));
}

void write_document_numbers(std::span<const int64_t> lengths, std::span<int64_t> out) {
  size_t at = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto count = static_cast<size_t>(lengths[i]);
    std::ranges::fill(out.subspan(at, count), static_cast<int64_t>(i));
    at += count;
  }
  std::ranges::fill(out.subspan(at), static_cast<int64_t>(lengths.size()));
}

}  // namespace lockstep::data
