#include "lockstep/config_value.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/nearest_name.h"
#include "core/printable.h"

namespace lockstep {

size_t read_choice(const ConfigNode& node, const std::string& path,
                   const std::vector<std::string>& names) {
  const auto text = ConfigValue<std::string>::read(node, path);
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    throw config_error(fmt::format("{}: {}: unknown value '{}'{}", node.origin, path,
                                   printable(text), suggest(text, names)));
  return static_cast<size_t>(found - names.begin());
}

}  // namespace lockstep
