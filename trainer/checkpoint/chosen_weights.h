// Lists of weights in the run file: train.init_except, train.freeze.
#pragma once

#include <string>
#include <vector>

namespace lockstep::trainer {

// Whether one of `names` means `weight`: a parameter or buffer itself, or a module it is in, e.g.
// "layer4.0" means "layer4.0.conv1.weight".
bool is_chosen(const std::string& weight, const std::vector<std::string>& names);

// Throws Config when a name of the list `key` means none of `weights`.
void verify_chosen(const std::string& key, const std::vector<std::string>& names,
                   const std::vector<std::string>& weights);

}  // namespace lockstep::trainer
