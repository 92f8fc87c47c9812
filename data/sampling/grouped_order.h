// The order of samples that lie in groups, such as shards or row groups: shuffled, and yet group by
// group. Computed where it is asked for: it takes memory for the groups and for what is shuffled at
// a time, not for all samples. No I/O, no batches.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/system/mutex.h"

namespace lockstep::data {

struct GroupedOrderOptions {
  int64_t lanes = 1;   // at least 1
  int64_t buffer = 1;  // samples that are shuffled together, at least
  uint64_t seed = 0;   // of the epoch
  size_t kept = 2;     // windows whose samples are kept: of what a rank reads in turns
};

// Every sample once. The groups are put in a random order; from its begin on, as many whole groups
// as it takes to have `buffer` samples are a window, whose samples are shuffled together (the
// shuffle buffer). The result is cut into `lanes` equal parts that take turns: sample p of the
// order is of lane p % lanes. So each of `lanes` ranks, which takes every lanes-th sample, reads
// groups of its own, one window after the other; at a number of lanes that does not divide the
// samples, the few that are left come last. The order depends on `ends` and the options alone, not
// on who asks: whoever goes on with an epoch must do so with the number of lanes it was begun with.
//
// Thread: const and safe to use from several threads at once.
class GroupedOrder {
 public:
  // `ends`: of the groups, as SampleInfo::shards.
  GroupedOrder(std::span<const int64_t> ends, GroupedOrderOptions options);

  int64_t size() const { return size_; }

  // Replaces each place of the order, in [0, size()), by the sample there.
  void look_up(std::span<int64_t> places) const;

  // Samples of any choice, repeated or not, as this order would have them: window by window,
  // shuffled in each. Lanes play no part.
  std::vector<int64_t> apply_order(std::span<const int64_t> chosen) const;

  // Groups that a window has at most.
  int64_t max_groups_per_window() const { return max_groups_per_window_; }

 private:
  struct Group {
    int64_t begin, end;
  };
  struct Window {
    int64_t begin;       // place of its first sample before the cut into lanes
    size_t first_group;  // in groups_
  };
  struct Shuffled {
    std::vector<int64_t> samples;
    uint64_t used_at = 0;
  };
  int64_t place_before_lanes(int64_t place) const;
  const std::vector<int64_t>& shuffled(size_t window) const REQUIRES(mutex_);

  GroupedOrderOptions options_;
  int64_t size_ = 0, max_groups_per_window_ = 0;
  std::vector<Group> groups_;    // in their random order
  std::vector<Window> windows_;  // and an end
  mutable Mutex mutex_;
  mutable std::map<size_t, Shuffled> shuffled_ GUARDED_BY(mutex_);
  mutable uint64_t uses_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::data
