// Which values of a resolved configuration nobody chose.
#pragma once

#include <string>

#include "lockstep/config_value.h"

namespace lockstep::dashboard {

// Paths such as "optimizer.momentum" of `config` whose value is the default that `schema` (a JSON
// Schema, as text) has for it, ascending; null when there is no schema. Where a section is one of
// several (`oneOf`), the one with the same name counts.
Json default_paths(const Json& config, const std::string& schema);

}  // namespace lockstep::dashboard
