// Which values of a resolved configuration are defaults.
#pragma once

#include <string>

#include "lockstep/config_value.h"

namespace lockstep::dashboard {

// The sorted paths in `config`, such as "optimizer.momentum", whose value equals its default in
// `schema` (JSON Schema text); null without a schema. Of alternatives (`oneOf`), the one with the
// same name is used.
Json default_paths(const Json& config, const std::string& schema);

}  // namespace lockstep::dashboard
