// A Gaussian process over points with coordinates in [0, 1]: a prediction with its uncertainty for
// each point, from noisy values at a few. Sources: Rasmussen and Williams, "Gaussian processes for
// machine learning" (2006), algorithm 2.1 and equation 5.9; kernel: Matern 5/2 with a length per
// coordinate; priors of the lengths and the noise: Hvarfner et al., "Vanilla Bayesian optimization
// performs great in high dimensions" (2024); optimizer of both: Rprop, as in Blum and Riedmiller,
// "Optimization of Gaussian process hyperparameters using Rprop" (2013).
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::sweep {

// Of a coordinate. Choices differ by 1, or not at all.
enum class Distance { Number, Choice };

// The logarithms of the lengths and of the variance of the noise. The variance of the values is 1.
struct KernelSettings {
  std::vector<double> log_lengths;
  double log_noise = 0;
};

// Thread: const calls may run concurrently.
class GaussianProcess {
 public:
  using Point = std::vector<double>;  // a coordinate per entry of `distances`

  // With the most probable settings. `points` is not empty, `values` are finite and have mean 0 and
  // variance 1. Takes time in proportion to points^3, and is a function of its arguments.
  static GaussianProcess fit(const std::vector<Distance>& distances, std::vector<Point> points,
                             std::vector<double> values);
  // With given settings.
  GaussianProcess(std::vector<Distance> distances, std::vector<Point> points,
                  std::vector<double> values, KernelSettings settings);

  // Of the value without noise. Takes time in proportion to points^2.
  struct Prediction {
    double mean = 0, deviation = 1;
  };
  Prediction at(const Point& point) const;

  // The logarithm of the density of the values, and its gradient by the settings.
  double log_likelihood() const;
  KernelSettings log_likelihood_gradient() const;

  const KernelSettings& settings() const { return settings_; }

 private:
  using Matrix = std::vector<std::vector<double>>;  // lower triangle, by row

  double distance_squared(size_t coordinate, const Point& a, const Point& b) const;
  double scaled_distance(const Point& a, const Point& b) const;
  void factorize();
  std::vector<double> solve_lower(std::vector<double> right) const;
  Matrix inverse() const;

  std::vector<Distance> distances_;
  std::vector<Point> points_;
  std::vector<double> values_;
  KernelSettings settings_;
  std::vector<double> inverse_squares_;  // of the lengths
  Matrix factor_;                        // Cholesky factor of the covariance of the values
  std::vector<double> weights_;          // inverse of the covariance times the values
};

}  // namespace lockstep::sweep
