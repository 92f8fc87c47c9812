#include "core/visible_gpus.h"

#include <sstream>

#include "core/trimmed.h"

namespace lockstep {

std::vector<std::string> visible_gpus(const std::string& value) {
  std::vector<std::string> names;
  std::istringstream items(value);
  for (std::string item; std::getline(items, item, ',');) {
    const std::string name(trimmed(item, " \t"));
    const bool is_number = !name.empty() && name.find_first_not_of("0123456789") == name.npos;
    if (!is_number && !name.starts_with("GPU-") && !name.starts_with("MIG-")) break;
    names.push_back(name);
  }
  return names;
}

}  // namespace lockstep
