// A regression forest (Breiman) over a few thousand rows of parameters, the base of
// parameter_importance().
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace lockstep::dashboard {

// One parameter of all rows, as numbers of bins: 0 where the row has no value, then 1, 2, ... in
// the order of the values (is_ordered) or one per category.
struct BinnedParameter {
  std::vector<uint8_t> bin;  // per row
  int num_bins = 1;          // including bin 0; at most kMaxBins
  bool is_ordered = true;    // splits are "bin <= b", otherwise "bin == b"
};

constexpr int kMaxBins = 33;

// At most 32 bins of about equal counts for NaN-free values, one per value if there are fewer. NaN
// is bin 0.
BinnedParameter bin_numbers(std::span<const double> values);
// `categories`: an index from 0 per row, -1: none. The 31 most common get a bin each, the others
// share one.
BinnedParameter bin_categories(std::span<const int> categories);

// Not thread-safe while it is fitted; predictions are.
class RegressionTree {
 public:
  // Fits the rows `rows` (with repetitions) to `target`. Each node draws a third of the parameters
  // and splits at the best bin of them; leaves have at least `min_leaf` rows.
  void fit(const std::vector<BinnedParameter>& parameters, std::span<const double> target,
           std::vector<uint32_t> rows, size_t min_leaf, std::mt19937_64& random);

  // The prediction for a row whose bin of parameter p is `bin_of(p)`.
  template <class BinOf>
  double predict(const BinOf& bin_of) const {
    size_t at = 0;
    while (nodes_[at].parameter >= 0) {
      const auto& node = nodes_[at];
      const int bin = bin_of(static_cast<size_t>(node.parameter));
      at = (node.is_ordered ? bin <= node.bin : bin == node.bin) ? at + 1 : node.right;
    }
    return nodes_[at].value;
  }

 private:
  struct Node {
    int parameter = -1;  // -1: a leaf
    int bin = 0;
    bool is_ordered = true;
    size_t right = 0;  // the left child is the next node
    double value = 0;
  };
  struct Split {
    int parameter = -1, bin = 0;
    double gain = 0;
  };

  Split best_split(const std::vector<BinnedParameter>& parameters, std::span<const double> target,
                   std::span<const uint32_t> rows, size_t min_leaf, std::mt19937_64& random) const;
  void grow(const std::vector<BinnedParameter>& parameters, std::span<const double> target,
            std::span<uint32_t> rows, size_t min_leaf, std::mt19937_64& random);

  std::vector<Node> nodes_;
};

}  // namespace lockstep::dashboard
