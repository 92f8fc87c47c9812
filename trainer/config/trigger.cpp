#include "trainer/config/trigger.h"

#include <ATen/ATen.h>

#include "distributed/collectives.h"

namespace lockstep::trainer {

bool Trigger::due(const Position& position, bool epoch_ended) {
  switch (period_.unit) {
    case Period::Unit::Steps: return position.step % period_.count == 0;
    case Period::Unit::Epochs: return epoch_ended && position.epoch % period_.count == 0;
    case Period::Unit::Seconds: break;
  }
  const auto now = std::chrono::steady_clock::now();
  auto decision =
      at::scalar_tensor(now - last_ >= std::chrono::seconds(period_.count) ? 1 : 0, at::kByte);
  distributed::broadcast(world_, decision, 0, "clock");
  const bool is_due = decision.item<uint8_t>() != 0;
  if (is_due) last_ = now;
  return is_due;
}

}  // namespace lockstep::trainer
