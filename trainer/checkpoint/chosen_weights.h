// Lists of weights in the run file: train.init_except, train.freeze.
#pragma once

#include <string>
#include <vector>

namespace lockstep::trainer {

// Whether one of `names` matches `weight`: the parameter or buffer itself, or a module that
// contains it, e.g. "layer4.0" matches "layer4.0.conv1.weight".
bool is_chosen(const std::string& weight, const std::vector<std::string>& names);

// Throws Config when a name of the list `key` matches none of `weights`. `kind`: of what is chosen.
void verify_chosen(const std::string& key, const std::vector<std::string>& names,
                   const std::vector<std::string>& weights,
                   const std::string& kind = "weight or module");

}  // namespace lockstep::trainer
