// Dynamic loss scaling for training in float16, whose smallest number is 6e-8: the scale grows
// until gradients overflow, and shrinks when they do. Same arithmetic as Python's
// torch.amp.GradScaler with default settings.
#pragma once

#include <cstdint>

#include "trainer/state/step_gradients.h"

namespace lockstep::trainer {

struct LossScaleState {
  double scale = 65536;
  int64_t good_steps = 0;  // since the scale changed

  bool operator==(const LossScaleState&) const = default;
};

// Ranks with the same gradients decide the same, without communication.
// Thread: the training thread.
class LossScaler {
 public:
  at::Tensor scaled(const at::Tensor& loss) const;

  // Divides all gradients by the scale, then updates the scale for the next step. Returns false if
  // a gradient is inf or nan: the step must be skipped. Waits for the device. Collective if they are
  // shared.
  bool unscale(const StepGradients& gradients);

  const LossScaleState& state() const { return state_; }
  void restore(const LossScaleState& state) { state_ = state; }

  // Returns the number of steps skipped since the last call.
  int64_t take_skipped();

 private:
  LossScaleState state_;
  int64_t skipped_ = 0;
};

}  // namespace lockstep::trainer
