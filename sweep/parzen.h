// The density of the tree-structured Parzen estimator: a mixture of one kernel per observation and a
// wide prior, over several parameters at once.
#pragma once

#include <vector>

#include "sweep/random.h"
#include "sweep/space.h"

namespace lockstep::sweep {

// Thread: const calls may run concurrently.
class ParzenDensity {
 public:
  // `observations`: points that have all of `parameters`, oldest first; may be empty.
  ParzenDensity(std::vector<const Parameter*> parameters, const std::vector<Point>& observations);

  // A coordinate per parameter: the place of a choice, the (logarithm of the) value otherwise.
  std::vector<double> draw(Random& random) const;
  double log_density(const std::vector<double>& at) const;
  // The values at a drawn place.
  void set(const std::vector<double>& at, Point& point) const;

 private:
  // One parameter.
  struct Axis {
    const Parameter* parameter = nullptr;
    double low = 0, high = 1;                 // of the coordinates
    std::vector<double> mean, deviation;      // by kernel, of a number
    std::vector<std::vector<double>> shares;  // by kernel and choice
  };

  Axis make_axis(const Parameter& parameter, const std::vector<Point>& observations) const;
  double log_kernel(const Axis& axis, size_t kernel, double at) const;

  std::vector<Axis> axes_;
  std::vector<double> weights_;  // by kernel, sum 1; the prior is last
};

}  // namespace lockstep::sweep
