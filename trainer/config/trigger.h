// "Every 10 steps", "every epoch", "every 5 min": when something that all ranks do together is due.
#pragma once

#include <chrono>

#include "core/config/period.h"
#include "lockstep/world.h"
#include "trainer/state/position.h"

namespace lockstep::trainer {

class Trigger {
 public:
  Trigger(World& world, Period period) : world_(world), period_(period) {}

  // Ask once after each step. `epoch_ended`: the step was the last of its epoch (position.epoch
  // counts it already). The same answer on every rank. Collective for periods of time: rank 0's
  // clock decides.
  bool due(const Position& position, bool epoch_ended);

 private:
  World& world_;
  Period period_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace lockstep::trainer
