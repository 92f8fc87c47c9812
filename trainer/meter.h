// Collects what forward passes report until somebody asks: sums of a GPU's numbers stay there, so
// that a step does not wait for it.
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
  struct Sum {
    double here = 0;
    at::Tensor on_device;  // float64 scalar; undefined on CPUs, where the number is at hand
  };
  void add_to(Sum& sum, const at::Tensor& value, double weight);

  std::map<std::string, Sum> sums_;
  int64_t count_ = 0;
};

}  // namespace lockstep
