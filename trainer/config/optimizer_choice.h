// The section `optimizer`: an optimizer, and groups of parameters with their own settings.
//
// Example:
//   optimizer:
//     name: adamw
//     lr: 1e-3
//     groups:
//       - {match: "*.bias", weight_decay: 0}
//       - {match: "head.*", frozen: true}
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/optimizer.h"
#include "lockstep/part.h"

namespace lockstep::trainer {

class OptimizerChoice final : public AnyPart {
 public:
  OptimizerChoice();

  void read(const ConfigNode& node, const std::string& path) override;
  Json dump() const override;
  Json schema() const override;

  const std::string& name() const { return part_.name(); }

  // Whether the first group that matches a parameter is not trained.
  bool is_frozen(const std::string& parameter) const;

  // Throws Config when a group matches none of `parameters`, all of the model.
  void verify_groups(const std::vector<std::string>& parameters) const;

  // Throws what the optimizer's constructor throws.
  std::shared_ptr<Optimizer> build(const NamedTensors& parameters) const;

 private:
  using BlueprintOf = Blueprint<Optimizer, const NamedTensors&>;

  struct Group {
    std::string match, origin;  // a pattern as of the shell; where it is
    bool is_frozen = false;
    std::shared_ptr<BlueprintOf> own;  // null: frozen
    std::vector<std::string> keys;     // that it sets
  };

  Group read_group(const ConfigNode& node, const ConfigNode& base, const std::string& path) const;
  const Group* find_group(const std::string& parameter) const;

  Part<Optimizer, const NamedTensors&> part_;
  std::vector<Group> groups_;
};

}  // namespace lockstep::trainer
