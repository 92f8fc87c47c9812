#include "trainer/state/grouped_optimizer.h"

#include <algorithm>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::trainer {

GroupedOptimizer::GroupedOptimizer(std::vector<Group> groups) : groups_(std::move(groups)) {
  check(!groups_.empty(), "an optimizer without groups");
}

void GroupedOptimizer::step(double lr) {
  const auto base = base_lr();
  for (const auto& group : groups_) {
    const auto own = group.optimizer->base_lr();
    group.optimizer->step(own == base ? lr : lr / base * own);
  }
}

bool GroupedOptimizer::is_elementwise() const {
  return std::ranges::all_of(groups_, [](const auto& g) { return g.optimizer->is_elementwise(); });
}

bool GroupedOptimizer::can_unfreeze() const {
  return std::ranges::all_of(groups_, [](const auto& g) { return g.optimizer->can_unfreeze(); });
}

bool GroupedOptimizer::has_evaluation_weights() const {
  return std::ranges::any_of(groups_,
                             [](const auto& g) { return g.optimizer->has_evaluation_weights(); });
}

void GroupedOptimizer::use_evaluation_weights() {
  for (const auto& group : groups_) group.optimizer->use_evaluation_weights();
}

void GroupedOptimizer::use_training_weights() {
  for (const auto& group : groups_) group.optimizer->use_training_weights();
}

NamedTensors GroupedOptimizer::state() const {
  NamedTensors state;
  for (const auto& group : groups_)
    for (auto& item : group.optimizer->state()) state.push_back(std::move(item));
  return state;
}

// Each group gets the state of its parameters.
void GroupedOptimizer::load_state(const NamedTensors& state) {
  for (const auto& group : groups_) {
    NamedTensors own;
    for (const auto& [name, tensor] : state)
      if (const auto dot = name.find('.');
          dot != std::string::npos && group.parameters.contains(name.substr(dot + 1)))
        own.emplace_back(name, tensor);
    if (!group.parameters.empty()) group.optimizer->load_state(own);
  }
}

}  // namespace lockstep::trainer
