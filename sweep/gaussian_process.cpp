#include "sweep/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace lockstep::sweep {
namespace {

// Added to the variance of the noise, so that points that are nearly equal do no harm.
constexpr double kJitter = 1e-8;

constexpr int kFitSteps = 60;
// Of the logarithms of lengths and noise: outside, the kernel is constant or the matrix singular.
constexpr double kMinLog = -14, kMaxLog = 7;

// Matern 5/2 at a scaled distance, and its derivative by the square of the distance.
double matern(double r) {
  const auto s = std::sqrt(5.0) * r;
  return (1 + s + s * s / 3) * std::exp(-s);
}

double matern_by_square(double r) {
  const auto s = std::sqrt(5.0) * r;
  return -5.0 / 6 * (1 + s) * std::exp(-s);
}

// The logarithms of lengths and noise have normal priors.
struct Prior {
  double mean, deviation;

  double log(double at) const { return -0.5 * std::pow((at - mean) / deviation, 2); }
  double log_gradient(double at) const { return -(at - mean) / (deviation * deviation); }
};

Prior length_prior(size_t dimensions) {
  return {std::numbers::sqrt2 + std::log(static_cast<double>(dimensions)) / 2, std::numbers::sqrt3};
}

constexpr Prior kNoisePrior{-4, 1};

// Resilient backpropagation: each entry has a step that grows while its gradient keeps its sign, and
// shrinks when it changes.
class Rprop {
 public:
  explicit Rprop(size_t count) : steps_(count, 0.3), last_(count, 0) {}

  void ascend(std::vector<double>& at, std::vector<double> gradient) {
    for (size_t i = 0; i < at.size(); ++i) {
      const auto agreement = gradient[i] * last_[i];
      if (agreement > 0) steps_[i] = std::min(steps_[i] * 1.2, 2.0);
      if (agreement < 0) {
        steps_[i] = std::max(steps_[i] * 0.5, 1e-6);
        gradient[i] = 0;
      }
      const auto sign = static_cast<double>((gradient[i] > 0) - (gradient[i] < 0));
      at[i] = std::clamp(at[i] + sign * steps_[i], kMinLog, kMaxLog);
    }
    last_ = std::move(gradient);
  }

 private:
  std::vector<double> steps_, last_;
};

}  // namespace

GaussianProcess::GaussianProcess(std::vector<Distance> distances, std::vector<Point> points,
                                 std::vector<double> values, KernelSettings settings)
    : distances_(std::move(distances)),
      points_(std::move(points)),
      values_(std::move(values)),
      settings_(std::move(settings)) {
  for (const auto log_length : settings_.log_lengths)
    inverse_squares_.push_back(std::exp(-2 * log_length));
  factorize();
}

GaussianProcess GaussianProcess::fit(const std::vector<Distance>& distances,
                                     std::vector<Point> points, std::vector<double> values) {
  const auto lengths = length_prior(distances.size());
  const auto make = [&](const std::vector<double>& at) {
    return GaussianProcess(distances, points, values, {{at.begin(), at.end() - 1}, at.back()});
  };
  // The lengths start well below the mean of their prior: a function that looks smooth is found to be so.
  std::vector<double> at(distances.size(), std::log(0.5)), best;
  at.push_back(kNoisePrior.mean);
  double best_density = 0;
  Rprop rprop(at.size());
  for (int step = 0; step < kFitSteps; ++step) {
    const auto process = make(at);
    auto density = process.log_likelihood() + kNoisePrior.log(at.back());
    const auto by_likelihood = process.log_likelihood_gradient();
    auto gradient = by_likelihood.log_lengths;
    for (size_t i = 0; i < gradient.size(); ++i) {
      density += lengths.log(at[i]);
      gradient[i] += lengths.log_gradient(at[i]);
    }
    gradient.push_back(by_likelihood.log_noise + kNoisePrior.log_gradient(at.back()));
    if (best.empty() || density > best_density) {
      best_density = density;
      best = at;
    }
    rprop.ascend(at, std::move(gradient));
  }
  return make(best);
}

double GaussianProcess::distance_squared(size_t coordinate, const Point& a, const Point& b) const {
  const auto difference = a[coordinate] - b[coordinate];
  if (distances_[coordinate] == Distance::Choice) return difference == 0 ? 0 : 1;
  return difference * difference;
}

double GaussianProcess::scaled_distance(const Point& a, const Point& b) const {
  double sum = 0;
  for (size_t i = 0; i < distances_.size(); ++i)
    sum += distance_squared(i, a, b) * inverse_squares_[i];
  return std::sqrt(sum);
}

void GaussianProcess::factorize() {
  const auto noise = std::exp(settings_.log_noise) + kJitter;
  factor_.resize(points_.size());
  for (size_t i = 0; i < points_.size(); ++i) {
    auto& row = factor_[i];
    row.resize(i + 1);
    for (size_t j = 0; j <= i; ++j) {
      auto sum = i == j ? 1 + noise : matern(scaled_distance(points_[i], points_[j]));
      for (size_t k = 0; k < j; ++k) sum -= row[k] * factor_[j][k];
      row[j] = i == j ? std::sqrt(std::max(sum, kJitter)) : sum / factor_[j][j];
    }
  }
  weights_ = solve_lower(values_);
  for (size_t i = weights_.size(); i-- > 0;) {
    for (size_t k = i + 1; k < weights_.size(); ++k) weights_[i] -= factor_[k][i] * weights_[k];
    weights_[i] /= factor_[i][i];
  }
}

std::vector<double> GaussianProcess::solve_lower(std::vector<double> right) const {
  for (size_t i = 0; i < right.size(); ++i) {
    for (size_t k = 0; k < i; ++k) right[i] -= factor_[i][k] * right[k];
    right[i] /= factor_[i][i];
  }
  return right;
}

GaussianProcess::Prediction GaussianProcess::at(const Point& point) const {
  std::vector<double> covariance;
  Prediction prediction;
  for (size_t i = 0; i < points_.size(); ++i) {
    covariance.push_back(matern(scaled_distance(point, points_[i])));
    prediction.mean += covariance.back() * weights_[i];
  }
  double variance = 1;
  for (const auto each : solve_lower(std::move(covariance))) variance -= each * each;
  prediction.deviation = std::sqrt(std::max(variance, kJitter));
  return prediction;
}

double GaussianProcess::log_likelihood() const {
  double sum = 0;
  for (size_t i = 0; i < points_.size(); ++i)
    sum -= 0.5 * values_[i] * weights_[i] + std::log(factor_[i][i]) +
           0.5 * std::log(2 * std::numbers::pi);
  return sum;
}

// The lower triangle of the inverse of the covariance.
GaussianProcess::Matrix GaussianProcess::inverse() const {
  const auto size = points_.size();
  // Rows are columns of the inverse of the factor.
  std::vector<std::vector<double>> columns(size);
  for (size_t j = 0; j < size; ++j) {
    auto& column = columns[j];  // its entries j, j + 1, ...
    column.assign(size - j, 0);
    for (size_t i = j; i < size; ++i) {
      auto sum = i == j ? 1.0 : 0.0;
      for (size_t k = j; k < i; ++k) sum -= factor_[i][k] * column[k - j];
      column[i - j] = sum / factor_[i][i];
    }
  }
  Matrix result(size);
  for (size_t i = 0; i < size; ++i)
    for (size_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (size_t k = i; k < size; ++k) sum += columns[i][k - i] * columns[j][k - j];
      result[i].push_back(sum);
    }
  return result;
}

KernelSettings GaussianProcess::log_likelihood_gradient() const {
  const auto inverse_covariance = inverse();
  KernelSettings gradient{std::vector<double>(distances_.size(), 0), 0};
  for (size_t i = 0; i < points_.size(); ++i)
    for (size_t j = 0; j <= i; ++j) {
      // Half the derivative of the likelihood by the covariance, which is symmetric.
      const auto by_covariance = weights_[i] * weights_[j] - inverse_covariance[i][j];
      if (i == j) {
        gradient.log_noise += 0.5 * by_covariance * std::exp(settings_.log_noise);
        continue;
      }
      const auto by_square =
          by_covariance * matern_by_square(scaled_distance(points_[i], points_[j]));
      for (size_t k = 0; k < distances_.size(); ++k)
        gradient.log_lengths[k] +=
            by_square * -2 * inverse_squares_[k] * distance_squared(k, points_[i], points_[j]);
    }
  return gradient;
}

}  // namespace lockstep::sweep
