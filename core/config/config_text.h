// Converts configs to YAML (config.yaml of a run) and schemas to help text (`--help`).
#pragma once

#include <string>

#include "lockstep/config_value.h"

namespace lockstep {

// `json` (an object) as YAML text that parse_config() reads back.
std::string to_yaml(const Json& json);

// A schema of ConfigDescriber as text for a terminal: one line per key with type, default and help.
std::string render_help(const Json& schema);

}  // namespace lockstep
