// Reads a run file and applies the run file that it extends, command-line overrides, and
// environment variables. The result is a tree (lockstep/config_node.h) in which every node has the
// file and line of its definition.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config_node.h"
#include "lockstep/config_value.h"

namespace lockstep {

// Whether the name is *.yaml or *.yml.
bool is_run_file(const std::string& path);

// Returns the value of an environment variable.
using GetVariable = std::function<std::optional<std::string>(const std::string& name)>;

// Reads `path`. A top-level key `extends: base.yaml`, relative to the file that contains it, starts
// from that run file: maps are merged key by key; other values replace those of the base, and so
// does a part (model, dataset, optimizer, ...) with a different `name`. Then applies `overrides`
// ("a.b=value"), and in all strings replaces "${NAME}" with the environment variable and a leading
// "~" or "~/" with $HOME; "$${" yields "${". Throws Config: as read_config_file(); cyclic
// `extends`; a variable that is not set or not UTF-8.
ConfigNode read_run_file(const std::filesystem::path& path,
                         const std::vector<std::string>& overrides,
                         const GetVariable& get_variable);

// `config` with "${" escaped as "$${", so that read_run_file() restores it.
Json with_escaped_variables(Json config);

}  // namespace lockstep
