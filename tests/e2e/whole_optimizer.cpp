// An optimizer that is not elementwise, for tests. It changes nothing.
#include "lockstep/optimizer.h"

namespace {

struct WholeConfig {
  double lr = 0.1;
};
template <class V>
void fields(V& v, WholeConfig& c) {
  v("lr", c.lr, "learning rate");
}
struct Whole final : lockstep::Optimizer {
  using Config = WholeConfig;
  Whole(const Config& config, const lockstep::NamedTensors&) : lr(config.lr) {}
  double base_lr() const override { return lr; }
  void step(double) override {}
  lockstep::NamedTensors state() const override { return {}; }
  void load_state(const lockstep::NamedTensors&) override {}
  double lr;
};
REGISTER_OPTIMIZER("whole", Whole, "needs whole parameters");

}  // namespace
