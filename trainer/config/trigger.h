// Decides when a periodic action of all ranks is due: "10 steps", "1 epoch", "5 min".
#pragma once

#include <chrono>

#include "core/config/period.h"
#include "lockstep/world.h"
#include "trainer/state/position.h"

namespace lockstep::trainer {

class Trigger {
 public:
  Trigger(World& world, Period period) : world_(world), period_(period) {}

  // Call once after each step. `epoch_ended`: the step was the last of its epoch (position.epoch
  // already counts it). Returns the same on every rank. Collective for periods of time: rank 0's
  // clock decides.
  bool due(const Position& position, bool epoch_ended);

 private:
  World& world_;
  Period period_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace lockstep::trainer
