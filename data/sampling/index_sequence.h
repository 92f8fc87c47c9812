// The samples of a pass in order: a list, or computed on demand, so that the order of a very large
// dataset needs no memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "data/sampling/batch_shares.h"
#include "data/sampling/grouped_order.h"

namespace lockstep::data {

// Thread: any; const.
class IndexSequence {
 public:
  // `nearby`: the value of nearby_groups().
  IndexSequence(std::vector<int64_t> indices, int64_t nearby = 1)  // NOLINT: a list is a sequence
      : size_(static_cast<int64_t>(indices.size())), list_(std::move(indices)), nearby_(nearby) {}
  IndexSequence(std::initializer_list<int64_t> indices)
      : IndexSequence(std::vector<int64_t>(indices)) {}

  // The share of a rank in an order that starts at `first` and wraps around at its end.
  IndexSequence(std::shared_ptr<const GroupedOrder> order, int64_t first, const BatchShares& shares,
                int64_t nearby)
      : IndexSequence(order->size(), first, shares) {
    order_ = std::move(order);
    nearby_ = nearby;
  }
  // The same of the order 0, 1, ..., num_samples - 1.
  IndexSequence(int64_t num_samples, int64_t first, const BatchShares& shares)
      : size_(shares.num_samples()), cycle_(num_samples), first_(first), shares_(shares) {}

  int64_t size() const { return size_; }

  // The indices in [begin, begin + out.size()), which must be in range.
  void copy(int64_t begin, std::span<int64_t> out) const {
    if (cycle_ == 0) {
      std::copy_n(list_.begin() + begin, out.size(), out.begin());
      return;
    }
    for (auto& item : out) item = (first_ + shares_.place(begin++)) % cycle_;
    if (order_) order_->look_up(out);
  }
  std::vector<int64_t> slice(int64_t begin, int64_t count) const {
    std::vector<int64_t> indices(static_cast<size_t>(count));
    copy(begin, indices);
    return indices;
  }
  std::vector<int64_t> all() const { return slice(0, size_); }

  // The number of shards (SampleInfo) among which consecutive samples alternate: a cache of this
  // size loads each shard once.
  int64_t nearby_groups() const { return nearby_; }

 private:
  int64_t size_;
  std::vector<int64_t> list_;
  int64_t cycle_ = 0;                          // samples of the whole order; 0: the list
  std::shared_ptr<const GroupedOrder> order_;  // none: in sequence
  int64_t first_ = 0;                          // offset of the shares' positions in the order
  BatchShares shares_{0, {}, {.batch_size = 1}};
  int64_t nearby_ = 1;
};

}  // namespace lockstep::data
