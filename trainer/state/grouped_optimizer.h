// Several optimizers, each of a group of parameters, behind one interface (optimizer.groups).
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lockstep/optimizer.h"

namespace lockstep::trainer {

class GroupedOptimizer final : public Optimizer {
 public:
  struct Group {
    std::shared_ptr<Optimizer> optimizer;
    std::set<std::string> parameters;  // names
  };

  // The learning rate is that of the first group; a schedule scales those of all groups.
  explicit GroupedOptimizer(std::vector<Group> groups);

  double base_lr() const override { return groups_.front().optimizer->base_lr(); }
  void step(double lr) override;
  bool is_elementwise() const override;
  bool can_unfreeze() const override;
  bool has_evaluation_weights() const override;
  void use_evaluation_weights() override;
  void use_training_weights() override;
  NamedTensors state() const override;
  void load_state(const NamedTensors& state) override;

 private:
  std::vector<Group> groups_;
};

}  // namespace lockstep::trainer
