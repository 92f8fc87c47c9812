#include "tracking/sinks/wandb/find_core.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

using CorePath = std::filesystem::path;

bool is_core_program(const CorePath& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

std::vector<CorePath> directories_of(const Environment& environment) {
  std::vector<CorePath> directories;
  std::istringstream list(environment("PATH").value_or(""));
  for (std::string name; std::getline(list, name, ':');)
    if (!name.empty()) directories.emplace_back(name);
  return directories;
}

// Searches the Python packages installed in `prefix`: PREFIX/lib/python3.11/site-packages/wandb.
std::optional<CorePath> core_below(const CorePath& prefix) {
  std::vector<CorePath> found;
  for (const auto* lib : {"lib", "lib64"}) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(prefix / lib, error)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      for (const auto* packages : {"site-packages", "dist-packages"})
        found.push_back(entry.path() / packages / "wandb" / "bin" / "wandb-core");
    }
  }
  std::ranges::sort(found);
  const auto program = std::ranges::find_if(found, is_core_program);
  return program == found.end() ? std::nullopt : std::optional(*program);
}

std::optional<CorePath> search_core(const Environment& environment) {
  const auto directories = directories_of(environment);
  for (const auto& directory : directories)
    if (is_core_program(directory / "wandb-core")) return directory / "wandb-core";
  std::vector<CorePath> prefixes;
  if (const auto environment_dir = environment("VIRTUAL_ENV"))
    prefixes.emplace_back(*environment_dir);
  for (const auto& directory : directories)
    if (is_core_program(directory / "python3")) prefixes.push_back(directory.parent_path());
  if (const auto home = environment("HOME")) prefixes.push_back(CorePath(*home) / ".local");
  for (const auto& prefix : prefixes)
    if (auto program = core_below(prefix)) return program;
  return std::nullopt;
}

}  // namespace

std::filesystem::path find_wandb_core(const std::optional<std::string>& configured,
                                      const Environment& environment) {
  if (configured) {
    if (is_core_program(*configured)) return std::filesystem::absolute(*configured);
    throw config_error(fmt::format("core: {} is not an executable file", *configured));
  }
  if (const auto program = search_core(environment)) return std::filesystem::absolute(*program);
  throw config_error(
      "wandb-core, which uploads runs to W&B, was not found: run `pip install wandb` (0.25 or "
      "newer) in an active environment, or set `core:` to the program, or set `mode: offline` and "
      "upload later with `lockstep sync RUN "
      "--sink wandb`");
}

}  // namespace lockstep::tracking
