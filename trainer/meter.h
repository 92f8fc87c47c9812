// Collects what forward passes report until somebody asks: sums stay on the model's device, so that
// a step does not wait for it.
#pragma once

#include <map>
#include <string>

#include "distributed/counters.h"
#include "models/model.h"

namespace lockstep {

class Meter {
 public:
  // Adds loss (a mean over outputs.count) and outputs.sums.
  void add(const Outputs& outputs);

  // What this rank collected, e.g. {"loss": 12.5 over 32, "accuracy": 30 over 32}; begins anew.
  // Waits for the device.
  Counters take();

 private:
  std::map<std::string, at::Tensor> sums_;  // float64 scalars
  int64_t count_ = 0;
};

}  // namespace lockstep
