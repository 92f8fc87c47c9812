// What the visitors of config_fields.h know of a Part (core/config/part.h), whatever it is a part
// of.
#pragma once

#include <string>

#include "core/config/config_value.h"

namespace lockstep {

// A member whose fields depend on its `name:` key. Implemented by Part (core/config/part.h).
class AnyPart {
 public:
  virtual ~AnyPart() = default;
  // `node` is the map with `name`. Throws Config for an unknown name.
  virtual void read(const ConfigNode& node, const std::string& path) = 0;
  virtual Json dump() const = 0;
  virtual Json schema() const = 0;
};

}  // namespace lockstep
