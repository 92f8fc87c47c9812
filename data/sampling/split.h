// The training and evaluation datasets: two, or one that is split.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/dataset.h"
#include "lockstep/part.h"

namespace lockstep::data {

struct SplitConfig {
  std::optional<double> eval;
  int64_t seed = 0;
};

template <class V>
void fields(V& v, SplitConfig& c) {
  v("eval", c.eval,
    "hold out this fraction of data.train for evaluation; data.eval may then set other options for "
    "these samples, e.g. no augmentation",
    above(0), below(1));
  v("seed", c.seed, "seed that selects the held-out samples; not run.seed, so that runs compare",
    at_least(0));
}

// The samples of each part, in the order of their dataset.
struct Split {
  std::vector<int64_t> train, eval;
};

// floor(num_samples * fraction) samples for evaluation: the members of Python's
// torch.utils.data.random_split(dataset, [1 - fraction, fraction], manual_seed(seed)).
// Throws Config if a part would be empty.
Split split_samples(int64_t num_samples, double fraction, int64_t seed);

// A dataset of the samples `members` of another dataset.
class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> whole, std::vector<int64_t> members);

  int64_t size() const override { return static_cast<int64_t>(members_.size()); }
  // `indices` of the batch are those of this subset. Random augmentation depends on those of the
  // whole.
  Batch get_batch(std::span<const int64_t> indices) const override;
  Batch get_samples(const SampleRequest& request) const override;
  std::vector<FieldLayout> layout() const override { return whole_->layout(); }
  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override;
  SampleInfo sample_info() const override;
  Json metadata() const override { return whole_->metadata(); }
  std::optional<int64_t> count_target_bytes(const Batch& batch) const override;
  std::vector<std::string> warnings() const override { return whole_->warnings(); }

 private:
  std::vector<int64_t> members_of(std::span<const int64_t> indices) const;
  SampleNumbers of_members(SampleNumbers of_whole) const;

  std::shared_ptr<const Dataset> whole_;
  std::vector<int64_t> members_;
};

// A dataset of several others.
class CombinedDataset : public Dataset {
 public:
  virtual std::vector<const Dataset*> parts() const = 0;  // at least one
};

// The names of its classes, in the order of their numbers; empty: not known.
std::vector<std::string> class_names_of(const Dataset& dataset);

struct TrainAndEval {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> eval;  // none: no evaluation
};

// Builds both, and fits them to the training samples; the evaluation set of a combined training set
// to the part of its type, or else to the first. With split.eval, `eval` is the same data with
// other options, or not given. Throws Config: a split of two datasets of different sizes, classes in
// another order, and what the datasets throw.
TrainAndEval build_datasets(const Part<Dataset>& train, const Part<Dataset>& eval,
                            const SplitConfig& split);

// For a prediction. With split.eval, `eval` may name another file: all of its samples are predicted,
// and it is fitted to the training samples of the split.
TrainAndEval build_datasets_to_predict(const Part<Dataset>& train, const Part<Dataset>& eval,
                                       const SplitConfig& split);

}  // namespace lockstep::data
