// Activation checkpointing: the arithmetic of torch.utils.checkpoint with use_reentrant=True.
#include "lockstep/model.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <utility>
#include <vector>

#include "models/autocast.h"
#include "models/replayed_random.h"

namespace lockstep {
namespace {

using Forward = Block::Forward;

// Restores the buffers of a block at the end of a scope, e.g. the running statistics of BatchNorm:
// they change in the first pass only.
class KeptBuffers {
 public:
  explicit KeptBuffers(const Block& block) : buffers_(block.buffers()) {
    for (const auto& buffer : buffers_) before_.push_back(buffer.clone());
  }
  ~KeptBuffers() {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(before_[i]);
  }
  KeptBuffers(const KeptBuffers&) = delete;
  KeptBuffers& operator=(const KeptBuffers&) = delete;

 private:
  std::vector<at::Tensor> buffers_, before_;
};

// One forward pass of a block, with the state to repeat it.
struct Pass : torch::CustomClassHolder {
  Pass(Block& the_block, Forward the_forward, const at::Tensor& x)
      : block(the_block),
        forward(std::move(the_forward)),
        generator(at::globalContext().defaultGenerator(x.device())),
        random(generator.get_state()),
        device(x.device().type()),
        autocast(at::autocast::is_autocast_enabled(device)),
        autocast_type(at::autocast::get_autocast_dtype(device)) {}

  at::Tensor repeat(const at::Tensor& x) const {
    const models::ReplayedRandom replayed(generator, random);
    const models::Autocast scope(device, autocast_type, autocast);
    const at::AutoGradMode with_grad(true);
    return forward(x);
  }

  Block& block;
  Forward forward;
  at::Generator generator;
  at::Tensor random;
  at::DeviceType device;
  bool autocast;
  at::ScalarType autocast_type;
};

struct Recompute : torch::autograd::Function<Recompute> {
  // `anchor`: a tensor with a gradient, so that the result has one even if `x` has none.
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& /*anchor*/, const c10::intrusive_ptr<Pass>& pass) {
    context->save_for_backward({x});
    context->saved_data["pass"] = c10::IValue::make_capsule(pass);
    const at::NoGradGuard no_grad;
    return pass->forward(x);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto capsule = context->saved_data["pass"].toCapsule();
    const auto& pass = static_cast<const Pass&>(*capsule);
    const auto saved = context->get_saved_variables()[0];
    const auto x = saved.detach().requires_grad_(saved.requires_grad());
    const KeptBuffers kept(pass.block);
    torch::autograd::backward({pass.repeat(x)}, {gradients[0]});
    return {x.grad(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor Block::run(const at::Tensor& x, const Forward& forward) {
  if (!observer_) return run_once_or_twice(x, forward);
  observer_->before_forward(*this);
  auto output = run_once_or_twice(x, forward);
  observer_->after_forward(*this, output);
  return output;
}

at::Tensor Block::run_once_or_twice(const at::Tensor& x, const Forward& forward) {
  if (!recomputes_ || !at::GradMode::is_enabled() || !is_training()) return forward(x);
  for (const auto& parameter : parameters())
    if (parameter.requires_grad()) {
      const auto anchor = at::empty({0}, x.options()).requires_grad_();
      return Recompute::apply(x, anchor, c10::make_intrusive<Pass>(*this, forward, x));
    }
  return forward(x);
}

}  // namespace lockstep
