// Dynamic scaling of the loss for training in float16, whose smallest number is 6e-8: the scale
// rises until gradients overflow, and falls when they do. The arithmetic of Python's
// torch.amp.GradScaler with its defaults.
#pragma once

#include <cstdint>

#include "lockstep/optimizer.h"

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

  // Divides all gradients by the scale, which then changes for the next step. Returns false when
  // one of them is infinite or no number: the step is to be left out. Waits for the device.
  bool unscale(const NamedTensors& parameters);

  const LossScaleState& state() const { return state_; }
  void restore(const LossScaleState& state) { state_ = state; }

  // Steps that were left out since the last call.
  int64_t take_skipped();

 private:
  LossScaleState state_;
  int64_t skipped_ = 0;
};

}  // namespace lockstep::trainer
