#include "lockstep/registry.h"

#include <fmt/format.h>

#include "core/config/nearest_name.h"
#include "core/config/plugin.h"
#include "core/printable.h"

namespace lockstep {

Error not_a_part(const ConfigNode& node, const std::string& path,
                 const std::vector<std::string>& names) {
  const auto first = names.empty() ? std::string("...") : names.front();
  return bad_value(
      node, path,
      fmt::format("a map such as {{name: {}}}", nearest_name(node.scalar, names).value_or(first)));
}

Error missing_part_name(const std::string& origin, const std::string& path,
                        const std::vector<std::string>& names) {
  return config_error(fmt::format("{}: {}.name: is required{}", origin, path, suggest("", names)));
}

Error unknown_part_name(const std::string& origin, const std::string& path, const std::string& kind,
                        const std::string& name, const std::vector<std::string>& names) {
  return config_error(fmt::format("{}: {}.name: unknown {} '{}'{}{}", origin, path, kind,
                                  printable(name), suggest(name, names),
                                  describe_loaded_plugins()));
}

}  // namespace lockstep
