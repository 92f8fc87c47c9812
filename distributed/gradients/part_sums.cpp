#include "distributed/gradients/part_sums.h"

#include <ATen/ATen.h>

#include <utility>

#include "lockstep/error.h"

namespace lockstep::distributed {

void PartSums::add(std::vector<at::Tensor> gradients) {
  Sum sum{std::move(gradients)};
  while (!pending_.empty() && pending_.back().num_parts == sum.num_parts) {
    auto& left = pending_.back();
    at::_foreach_add_(left.gradients, sum.gradients);
    left.num_parts *= 2;
    sum = std::move(left);
    pending_.pop_back();
  }
  pending_.push_back(std::move(sum));
}

std::vector<at::Tensor> PartSums::take() {
  check(pending_.size() == 1, "the number of parts of a step must be a power of two");
  auto gradients = std::move(pending_.front().gradients);
  pending_.clear();
  return gradients;
}

}  // namespace lockstep::distributed
