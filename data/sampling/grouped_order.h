// A shuffled order of samples stored in groups (shards, row groups) that reads group by group.
// Computed on demand: memory for the groups and the current windows, not for all samples. No I/O,
// no batches.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/system/mutex.h"

namespace lockstep::data {

struct GroupedOrderOptions {
  int64_t lanes = 1;   // at least 1
  int64_t buffer = 1;  // minimum samples that are shuffled together
  uint64_t seed = 0;   // of the epoch
  size_t kept = 2;     // cached windows, which a rank reads alternately
};

// Every sample once. The groups are shuffled and then divided into windows: whole groups with at
// least `buffer` samples together, which are shuffled within the window (the shuffle buffer). The
// result is cut into `lanes` equal parts that are interleaved: sample p of the order belongs to
// lane p % lanes. So each of `lanes` ranks, which takes every lanes-th sample, reads its own
// groups, window by window. If `lanes` does not divide the samples, the remainder comes last. The
// order depends on `ends` and the options only; an epoch must be resumed with the lanes with which
// it began.
//
// Thread: any; const.
class GroupedOrder {
 public:
  // `ends`: of the groups, as SampleInfo::shards.
  GroupedOrder(std::span<const int64_t> ends, GroupedOrderOptions options);

  int64_t size() const { return size_; }

  // Replaces each position in the order, in [0, size()), by its sample.
  void look_up(std::span<int64_t> places) const;

  // Puts any samples, possibly repeated, into this order: window by window, shuffled within each.
  // Lanes have no effect.
  std::vector<int64_t> apply_order(std::span<const int64_t> chosen) const;

  // Maximum number of groups in a window.
  int64_t max_groups_per_window() const { return max_groups_per_window_; }

 private:
  struct Group {
    int64_t begin, end;
  };
  struct Window {
    int64_t begin;       // position of its first sample before the split into lanes
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
  std::vector<Group> groups_;    // shuffled
  std::vector<Window> windows_;  // and an end
  mutable Mutex mutex_;
  mutable std::map<size_t, Shuffled> shuffled_ GUARDED_BY(mutex_);
  mutable uint64_t uses_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::data
