// A hook that changes one bit of a weight on one rank, as a memory error would, for tests.
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
};

template <class V>
void fields(V& v, FlipBitConfig& c) {
  v("rank", c.rank, "the rank that changes");
  v("step", c.step, "after this step");
  v("tensor", c.tensor, "name of the weight");
}

class FlipBit final : public Hook {
 public:
  using Config = FlipBitConfig;
  explicit FlipBit(const Config& config) : config_(config) {}

  void before_step(HookContext& run) override {
    if (run.world.rank() != config_.rank || run.step != config_.step) return;
    const at::NoGradGuard no_grad;
    auto bits = run.model.named_parameters()[config_.tensor].view(at::kInt).flatten();
    bits[bits.numel() / 2].bitwise_xor_(1);  // the lowest bit
  }

 private:
  Config config_;
};

REGISTER_HOOK("flip_bit", FlipBit, "for tests");

}  // namespace
