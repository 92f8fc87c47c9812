// Collects what forward passes report until somebody asks: sums of a GPU's numbers stay there, so
// that a step does not wait for it.
#pragma once

#include <map>
#include <string>

#include "distributed/counters.h"
#include "lockstep/model.h"

namespace lockstep::trainer {

struct Measured {
  distributed::Counters counters;  // e.g. {"loss": 12.5 over 32, "accuracy": 30 over 32}
  double samples = 0;              // the same as the counts where the loss is a mean over samples
  double targets = 0;              // what the counters are over

  double loss() const;  // its sum; 0 where there is none
};

// Collective: added up over all ranks. Throws Config when they do not bring the same names.
Measured merge_measured(World& world, const Measured& local);

class Meter {
 public:
  // Adds loss (a mean over outputs.targets, or else over outputs.count) and outputs.sums. Where the
  // batch does not count: their names alone, which all ranks have.
  void add(const Outputs& outputs, bool counts = true);

  // The sum of the losses since then. Waits for the device.
  double loss() const;

  // What this rank collected; begins anew. Waits for the device.
  Measured take();

 private:
  struct Sum {
    double here = 0;
    at::Tensor on_device;  // float64 scalar; undefined on CPUs, where the number is at hand
  };
  static void add_to(Sum& sum, const at::Tensor& value, double weight);
  static double take_from(Sum& sum);

  std::map<std::string, Sum> sums_;
  Sum targets_;
  int64_t samples_ = 0;
};

// A metric of what evaluate() returned. Throws Config when there is no such, naming those that
// there are; `key`: of the run file, that asked for it.
double metric_of(const std::map<std::string, double>& evaluation, const std::string& metric,
                 const std::string& key);

}  // namespace lockstep::trainer
