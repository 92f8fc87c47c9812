// The files that `lockstep new` writes.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep::cli {

// "run", "model", "dataset" and "sink".
std::vector<std::string> project_kinds();

// (file name, content) of a project of a kind; `name` is a C++ identifier in lower case.
std::vector<std::pair<std::string, std::string>> project_files(const std::string& kind,
                                                               const std::string& name);

}  // namespace lockstep::cli
