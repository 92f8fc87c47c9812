// The samples of a pass in their order: as a list, or computed where they are asked for, so that an
// order of more samples than memory holds numbers costs nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "data/grouped_order.h"

namespace lockstep {

// Thread: const and safe to use from several threads at once.
class IndexSequence {
 public:
  // `nearby`: what nearby_groups() says.
  IndexSequence(std::vector<int64_t> indices, int64_t nearby = 1)  // NOLINT: a list is a sequence
      : size_(static_cast<int64_t>(indices.size())),
        list_(std::move(indices)),
        run_{.nearby = nearby} {}
  IndexSequence(std::initializer_list<int64_t> indices)
      : IndexSequence(std::vector<int64_t>(indices)) {}

  // Every stride-th place of an order from `first` on, going on at its begin after its end.
  struct Run {
    int64_t first = 0, stride = 1, size = 0, nearby = 1;
  };
  IndexSequence(std::shared_ptr<const GroupedOrder> order, Run run)
      : size_(run.size), order_(std::move(order)), run_(run) {}

  int64_t size() const { return size_; }

  // Those at [begin, begin + out.size()). Requires them to be inside.
  void copy(int64_t begin, std::span<int64_t> out) const {
    if (order_)
      order_->copy(run_.first + begin * run_.stride, run_.stride, out);
    else
      std::copy_n(list_.begin() + begin, out.size(), out.begin());
  }
  std::vector<int64_t> slice(int64_t begin, int64_t count) const {
    std::vector<int64_t> indices(static_cast<size_t>(count));
    copy(begin, indices);
    return indices;
  }
  std::vector<int64_t> all() const { return slice(0, size_); }

  // How many groups (Dataset::groups()) samples that follow each other are of: whoever keeps so
  // many loads each once.
  int64_t nearby_groups() const { return run_.nearby; }

 private:
  int64_t size_;
  std::vector<int64_t> list_;
  std::shared_ptr<const GroupedOrder> order_;  // none: the list
  Run run_;
};

}  // namespace lockstep
