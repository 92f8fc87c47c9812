// The labels of a classifier in a run file: their number, or a list of names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/config_value.h"

namespace lockstep::models {

struct LabelNames {
  int64_t count = 0;  // 0: not set, or `names` has them
  std::vector<std::string> names;

  bool is_empty() const { return count == 0 && names.empty(); }
  // The names of all labels. `stored`: of the file, used if nothing is set or only their number.
  std::vector<std::string> resolve(const std::vector<std::string>& stored) const;
};

}  // namespace lockstep::models

namespace lockstep {

template <>
struct ConfigValue<models::LabelNames> {
  static models::LabelNames read(const ConfigNode& node, const std::string& path);
  static Json dump(const models::LabelNames& labels);
  static Json schema();
};

}  // namespace lockstep
