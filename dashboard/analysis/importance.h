// How much each parameter of a set of runs matters for a result.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dashboard/analysis/forest.h"

namespace lockstep::dashboard {

// A parameter of all runs: numbers, or categories.
struct StudiedParameter {
  std::vector<double> numbers;  // NaN: none
  std::vector<int> categories;  // used if `numbers` is empty; -1: none
};

// How the mean result changes with the parameter. None: it does not, or only together with others.
enum class Effect { None, Rises, Falls, Mixed };

struct ParameterImportance {
  // The share of the variance of the result that cannot be predicted once the values of this
  // parameter are shuffled, of runs that a tree has not seen. 0: none.
  double importance = 0;
  bool above_noise = false;  // clearly larger than that of shuffled copies of parameters
  // Spearman's rank correlation of numbers with the result; none for categories.
  std::optional<double> correlation;
  size_t num_runs = 0;  // with a value and a result
  Effect effect = Effect::None;
  // The mean prediction for each of `at`, with the other parameters as they are. Empty if the
  // parameter is not above the noise. `at`: values of a number, or categories.
  std::vector<double> at, mean;
};

// Two parameters whose effects depend on each other.
struct Interaction {
  size_t first = 0, second = 0;
  double strength = 0;  // importance of the pair that neither explains alone
};

struct ImportanceReport {
  size_t num_runs = 0;   // with a finite result
  size_t needed = 0;     // runs needed for these parameters
  size_t num_used = 0;   // of num_runs, evenly chosen; 0: too few, and no importance is estimated
  double explained = 0;  // share of the variance that the forest predicts for unseen runs
  std::vector<ParameterImportance> parameters;  // as given
  std::vector<Interaction> interactions;        // strongest first
};

// The runs needed to estimate the importance of `num_parameters`.
size_t runs_needed(size_t num_parameters);

// Permutation importance of a random forest, on the ranks of the results, so that neither outliers
// nor the scale (a loss, its logarithm) matter. `target`: one result per run; runs with NaN or
// infinities are left out. Deterministic. Time: at most about 0.2 s; more than 2000 runs are
// thinned.
ImportanceReport parameter_importance(const std::vector<StudiedParameter>& parameters,
                                      std::span<const double> target);

}  // namespace lockstep::dashboard
