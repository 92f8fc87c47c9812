#include "trainer/loop/gradients.h"

#include <ATen/ATen.h>

#include "distributed/collectives.h"

namespace lockstep::trainer {

at::Tensor weighted_loss(const at::Tensor& loss, const BatchWeight& weight) {
  const auto& [part, whole] = weight;
  if (part == whole) return loss;
  if (part > 0 && whole % part == 0) return loss / static_cast<double>(whole / part);
  return loss * (static_cast<double>(part) / static_cast<double>(whole));
}

at::Tensor total_targets(World& world, const std::vector<at::Tensor>& targets) {
  auto total = at::stack(targets).sum();
  all_reduce(world, total, distributed::ReduceOp::Sum, "targets of the step");
  return total;
}

std::vector<at::Tensor> target_divisors(const std::vector<at::Tensor>& targets,
                                        const at::Tensor& total, int64_t num_parts) {
  // The loss of a batch without targets is 0: its divisor does not matter.
  const auto shares = (at::stack(targets) * num_parts).clamp_min(1).to(at::kDouble);
  return (total.clamp_min(1).to(at::kDouble) / shares).unbind();
}

at::Tensor clip_gradients(const StepGradients& gradients, double max_norm) {
  if (gradients.empty()) return {};
  const auto norm = at::linalg_vector_norm(gradients.norms(), 2);
  const auto factor = at::clamp_max(max_norm / (norm + 1e-6), 1.0);
  if (!gradients.own().empty()) at::_foreach_mul_(gradients.own(), factor);
  return norm;
}

}  // namespace lockstep::trainer
