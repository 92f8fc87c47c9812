// A run file with all that it refers to: the run file that it extends, the overrides of the command
// line, and environment variables. What comes out is a tree as lockstep/config_node.h describes,
// in which every node remembers the file and line it was written in.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config_node.h"
#include "lockstep/config_value.h"

namespace lockstep {

// By its name: *.yaml or *.yml.
bool is_run_file(const std::string& path);

// The value of an environment variable.
using LookUpVariable = std::function<std::optional<std::string>(const std::string& name)>;

// Reads `path`. `extends: base.yaml` at its top, a path relative to the file it stands in, begins
// with that run file: maps are merged key by key, all else replaces what the base has; so does a
// part (model, dataset, optimizer, ...) with another `name` than the base's. Then applies
// `overrides` ("a.b=value"), then replaces in all text "${NAME}" by the environment variable, and
// "~" or "~/" at its beginning by $HOME; "$${" stands for "${".
// Throws Config: as read_config_file(), files that extend each other in a circle, a variable that
// is not set.
ConfigNode read_run_file(const std::filesystem::path& path,
                         const std::vector<std::string>& overrides, const LookUpVariable& look_up);

// `config` written so that read_run_file() gives it back: with "$${" for "${".
Json with_escaped_variables(Json config);

}  // namespace lockstep
