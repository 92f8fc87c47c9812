// A hook that changes one bit of a weight, or of its gradient, on one rank, as a memory error would,
// for tests.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <string>

#include "lockstep/hook.h"

namespace {

using namespace lockstep;

struct FlipBitConfig {
  int64_t rank = 0, step = 1;
  std::string tensor;
  bool gradient = false;
  int64_t pass = 0;
};

template <class V>
void fields(V& v, FlipBitConfig& c) {
  v("rank", c.rank, "the rank that changes");
  v("step", c.step, "after this step; a gradient: in this step");
  v("tensor", c.tensor, "name of the weight");
  v("gradient", c.gradient, "change its gradient");
  v("pass", c.pass, "of which backward pass of the step, from 1 (0: of all)");
}

class FlipBit final : public Hook {
 public:
  using Config = FlipBitConfig;
  explicit FlipBit(const Config& config) : config_(config) {}

  void before_run(HookContext& run) override {
    if (!config_.gradient || run.world.rank() != config_.rank) return;
    run.model.named_parameters()[config_.tensor].register_hook([this](const at::Tensor& gradient) {
      if (!is_in_step_ || (++passes_ != config_.pass && config_.pass != 0)) return gradient;
      return flip(gradient.clone());
    });
  }

  void before_step(HookContext& run) override {
    is_in_step_ = run.step + 1 == config_.step;
    if (config_.gradient || run.world.rank() != config_.rank || run.step != config_.step) return;
    flip(run.model.named_parameters()[config_.tensor]);
  }

 private:
  static at::Tensor flip(at::Tensor values) {
    const at::NoGradGuard no_grad;
    auto bits = values.view(at::kInt).flatten();
    bits[bits.numel() / 2].bitwise_xor_(1);  // the lowest bit
    return values;
  }

  Config config_;
  bool is_in_step_ = false;
  int64_t passes_ = 0;  // of the step
};

REGISTER_HOOK("flip_bit", FlipBit, "for tests");

}  // namespace
