// The last values of a series, for a running median.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lockstep::tracking {

class RecentValues {
 public:
  explicit RecentValues(size_t capacity) : capacity_(capacity) {}

  void add(double value) {
    if (values_.size() < capacity_)
      values_.push_back(value);
    else
      values_[next_] = value;
    next_ = (next_ + 1) % capacity_;
  }

  size_t size() const { return values_.size(); }
  // Requires size() > 0.
  double median() const { return median_of(values_); }

  // Of an even number the lower one of the middle two. Requires values.
  static double median_of(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

 private:
  size_t capacity_, next_ = 0;
  std::vector<double> values_;
};

}  // namespace lockstep::tracking
