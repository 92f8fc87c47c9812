// Which commit a program was started from.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::tracking {

struct GitState {
  std::string commit;  // "" before the first one
  std::string branch;  // "" where none is checked out
};

// Of the working tree that `directory` is in, as git keeps it in files (no program is started, so
// that nobody waits): nullopt where there is none, or where its files say something else.
std::optional<GitState> read_git_state(const std::filesystem::path& directory);

}  // namespace lockstep::tracking
