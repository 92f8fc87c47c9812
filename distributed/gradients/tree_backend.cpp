#include "distributed/gradients/tree_backend.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "distributed/backends/done_work.h"
#include "distributed/backends/shm_backend.h"
#include "distributed/shm/reduction.h"
#include "distributed/torch_versions.h"

namespace lockstep::distributed {

c10::intrusive_ptr<c10d::Work> TreeBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                      const c10d::AllreduceOptions& options) {
  TORCH_CHECK(tensors.size() == 1 && options.reduceOp == c10d::ReduceOp::SUM,
              "a tree adds one tensor at a time");
  const at::NoGradGuard no_grad;
  const auto flat = tensors[0].view({-1});
  const auto count = flat.numel();
  const auto chunk = (count + size_ - 1) / size_;
  auto sent = at::zeros({size_ * chunk}, flat.options());
  sent.narrow(0, 0, count).copy_(flat);
  auto received = at::empty_like(sent);
  std::vector<int64_t> equal;
  exchange_parts(*inner_, received, sent, equal, equal)->wait();
  std::vector<const std::byte*> sources;
  const auto* const first = static_cast<const std::byte*>(received.const_data_ptr());
  for (int64_t rank = 0; rank < size_; ++rank)
    sources.push_back(first + rank * chunk * static_cast<int64_t>(received.element_size()));
  auto sums = sent.narrow(0, rank_ * chunk, chunk);
  const auto elements = static_cast<size_t>(chunk);
  shm::SumOrder(size_, elements, static_cast<size_t>(sums.element_size()), shm::SumKind::Tree)
      .add(static_cast<std::byte*>(sums.mutable_data_ptr()), sources, elements,
           element_type_of(sums.scalar_type()));
  gather_into(*inner_, received, sums)->wait();
  flat.copy_(received.narrow(0, 0, count));
  return c10::make_intrusive<DoneWork>(c10d::OpType::ALLREDUCE, tensors);
}

}  // namespace lockstep::distributed
