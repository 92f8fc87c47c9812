#include "trainer/gradients.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "distributed/collectives.h"

namespace lockstep {

std::vector<int64_t> batch_counts(int64_t num_samples, int64_t batch_size, int64_t first,
                                  int64_t num_batches) {
  std::vector<int64_t> counts;
  for (int64_t i = first; i < first + num_batches; ++i)
    counts.push_back(std::min(batch_size, num_samples - i * batch_size));
  return counts;
}

at::Tensor weighted_loss(const at::Tensor& loss, const std::vector<int64_t>& counts, int64_t i) {
  if (counts.size() == 1) return loss;
  const auto total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const auto count = counts[static_cast<size_t>(i)];
  if (total % count == 0) return loss / static_cast<double>(total / count);
  return loss * (static_cast<double>(count) / static_cast<double>(total));
}

std::vector<at::Tensor> target_divisors(World& world, const std::vector<at::Tensor>& targets) {
  const auto counts = at::stack(targets);
  auto total = counts.sum();
  all_reduce(world, total, ReduceOp::Sum, "targets of the step");
  // Batches without targets have a loss of 0: by what that is divided does not matter.
  const auto shares = (counts * world.world_size()).clamp_min(1).to(at::kDouble);
  return (total.clamp_min(1).to(at::kDouble) / shares).unbind();
}

at::Tensor clip_gradients(const NamedTensors& parameters, double max_norm) {
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : parameters)
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  if (gradients.empty()) return {};
  const auto norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)), 2);
  const auto factor = at::clamp_max(max_norm / (norm + 1e-6), 1.0);
  at::_foreach_mul_(gradients, factor);
  return norm;
}

}  // namespace lockstep
