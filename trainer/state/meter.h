// Accumulates the outputs of forward passes until they are read. Sums of values on a GPU stay
// there, so that a step does not wait for it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "distributed/counters.h"
#include "lockstep/model.h"

namespace lockstep::trainer {

struct Measured {
  distributed::Counters counters;  // e.g. {"loss": 12.5 over 32, "accuracy": 30 over 32}
  double samples = 0;              // equals `targets` if the loss is a mean over samples
  double targets = 0;              // the count of all counters

  double sum(const std::string& name) const;  // 0 if there is none
  double loss() const { return sum("loss"); }
};

struct MeasuredOfRanks {
  Measured total;                         // sums over all ranks
  std::vector<std::vector<double>> rows;  // of each rank
};

// Collective. `row`: of the same length on all ranks. Throws Config when ranks have different names.
MeasuredOfRanks merge_measured(World& world, const Measured& local, std::span<const double> row);

class Meter {
 public:
  // Adds loss (a mean over outputs.targets, or else over outputs.count) and outputs.sums. If the
  // batch does not count, adds only their names, which must be the same on all ranks.
  void add(const Outputs& outputs, bool counts = true);

  // The names of all sums. add_names(): as add() of a batch that does not count.
  std::vector<std::string> names() const;
  void add_names(const std::vector<std::string>& names);

  // The sum of the losses since the last take(). Waits for the device.
  double loss() const;

  // Returns what this rank accumulated, with the names of all batches so far, and resets it. Waits for
  // the device.
  Measured take();

 private:
  struct Sum {
    double here = 0;
    at::Tensor on_device;  // float64 scalar; undefined on CPUs, which use `here`
  };
  static void add_to(Sum& sum, const at::Tensor& value, double weight);
  static double take_from(Sum& sum);

  std::map<std::string, Sum> sums_;
  Sum targets_;
  int64_t samples_ = 0;
};

// Returns a metric of evaluate()'s result. Throws Config when there is no such metric, with a
// suggestion; `key`: the run-file key that selects it.
double metric_of(const std::map<std::string, double>& evaluation, const std::string& metric,
                 const std::string& key);

}  // namespace lockstep::trainer
