#include "distributed/sharding/divided_tensor.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "distributed/collectives.h"

namespace lockstep::distributed {

at::Tensor flat_view(const at::Tensor& tensor) {
  return at::as_strided(tensor.detach(), {tensor.numel()}, {1});
}

at::Tensor assemble(World& world, const DividedTensor& tensor, bool is_wanted,
                    std::string_view name) {
  const at::NoGradGuard no_grad;
  const auto options = at::device(world.device()).dtype(tensor.whole.scalar_type());
  at::Tensor whole;
  if (is_wanted) whole = at::empty_strided(tensor.whole.sizes(), tensor.whole.strides(), options);
  for (const auto& part : tensor.parts) {
    auto elements =
        part.rank == world.rank() ? flat_view(tensor.own) : at::empty({part.numel}, options);
    broadcast(world, elements, part.rank, name);
    if (is_wanted) flat_view(whole).narrow(0, part.begin, part.numel).copy_(elements);
  }
  return whole;
}

void load_part(const World& world, const DividedTensor& tensor, const at::Tensor& whole) {
  const at::NoGradGuard no_grad;
  const auto& like = tensor.whole;
  const auto laid_out =
      whole.strides() == like.strides()
          ? whole
          : at::empty_strided(like.sizes(), like.strides(), whole.options()).copy_(whole);
  for (const auto& part : tensor.parts)
    if (part.rank == world.rank())
      flat_view(tensor.own).copy_(flat_view(laid_out).narrow(0, part.begin, part.numel));
}

}  // namespace lockstep::distributed
