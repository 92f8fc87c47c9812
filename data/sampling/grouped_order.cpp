#include "data/sampling/grouped_order.h"

#include <algorithm>
#include <numeric>

#include "lockstep/error.h"
#include "lockstep/sample_random.h"

namespace lockstep::data {
namespace {

template <class T>
void shuffle(std::span<T> items, SampleRandom random) {
  for (auto left = items.size(); left > 1; --left) {
    const auto chosen = static_cast<size_t>(random.uniform() * static_cast<double>(left));
    std::swap(items[left - 1], items[chosen]);
  }
}

}  // namespace

GroupedOrder::GroupedOrder(std::span<const int64_t> ends, GroupedOrderOptions options)
    : options_(options) {
  check(!ends.empty() && options.lanes >= 1 && options.buffer >= 1 && options.kept >= 1,
        "GroupedOrder: groups, lanes and buffer must not be empty");
  size_ = ends.back();
  for (size_t i = 0; i < ends.size(); ++i) {
    const auto begin = i == 0 ? 0 : ends[i - 1];
    if (begin < ends[i]) groups_.push_back({begin, ends[i]});
  }
  // The shuffle has no epoch and sample in its key.
  shuffle(std::span(groups_), SampleRandom(options.seed, 0, 0));
  int64_t place = 0, begin = 0;
  for (size_t i = 0, first = 0; i < groups_.size(); ++i) {
    if (i == first) windows_.push_back({begin = place, first});
    place += groups_[i].end - groups_[i].begin;
    max_groups_per_window_ = std::max(max_groups_per_window_, static_cast<int64_t>(i - first + 1));
    if (place - begin >= options.buffer) first = i + 1;
  }
  windows_.push_back({size_, groups_.size()});
}

int64_t GroupedOrder::place_before_lanes(int64_t place) const {
  if (options_.lanes == 1) return place;
  const auto share = size_ / options_.lanes;
  if (place >= share * options_.lanes) return place;
  return place % options_.lanes * share + place / options_.lanes;
}

// Requires the lock; valid until the next call.
const std::vector<int64_t>& GroupedOrder::shuffled(size_t window) const {
  if (!shuffled_.contains(window)) {
    if (shuffled_.size() >= options_.kept)
      shuffled_.erase(std::ranges::min_element(
          shuffled_, {}, [](const auto& known) { return known.second.used_at; }));
    auto& samples = shuffled_[window].samples;
    samples.reserve(static_cast<size_t>(windows_[window + 1].begin - windows_[window].begin));
    for (auto i = windows_[window].first_group; i < windows_[window + 1].first_group; ++i)
      for (auto sample = groups_[i].begin; sample < groups_[i].end; ++sample)
        samples.push_back(sample);
    shuffle(std::span(samples), SampleRandom(options_.seed, 1, static_cast<int64_t>(window)));
  }
  auto& found = shuffled_[window];
  found.used_at = ++uses_;
  return found.samples;
}

std::vector<int64_t> GroupedOrder::apply_order(std::span<const int64_t> chosen) const {
  std::vector<std::pair<int64_t, size_t>> window_of_end;  // of each group, by its end
  for (size_t window = 0; window + 1 < windows_.size(); ++window)
    for (auto i = windows_[window].first_group; i < windows_[window + 1].first_group; ++i)
      window_of_end.emplace_back(groups_[i].end, window);
  std::ranges::sort(window_of_end);
  std::vector<std::vector<int64_t>> of_windows(windows_.size());
  for (const auto sample : chosen) {
    const auto after =
        std::ranges::upper_bound(window_of_end, sample, {}, &std::pair<int64_t, size_t>::first);
    of_windows[after->second].push_back(sample);
  }
  std::vector<int64_t> all;
  all.reserve(chosen.size());
  for (size_t window = 0; window < of_windows.size(); ++window) {
    shuffle(std::span(of_windows[window]),
            SampleRandom(options_.seed, 2, static_cast<int64_t>(window)));
    all.insert(all.end(), of_windows[window].begin(), of_windows[window].end());
  }
  return all;
}

void GroupedOrder::look_up(std::span<int64_t> places) const {
  const MutexLock lock(mutex_);
  int64_t begin = 0, end = 0;  // of the current window
  const int64_t* samples = nullptr;
  for (auto& item : places) {
    const auto place = place_before_lanes(item);
    if (place < begin || place >= end) {
      const auto after = std::ranges::upper_bound(windows_, place, {}, &Window::begin);
      const auto window = static_cast<size_t>(after - windows_.begin()) - 1;
      begin = windows_[window].begin;
      end = windows_[window + 1].begin;
      samples = shuffled(window).data();
    }
    item = samples[place - begin];
  }
}

}  // namespace lockstep::data
