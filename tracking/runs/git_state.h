// The commit from which a program was started.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::tracking {

struct GitState {
  std::string commit;  // "" before the first one
  std::string branch;  // "" if none is checked out
};

// The directory with ".git" that is, or contains, `directory`; "" if there is none. Throws Error,
// fs::filesystem_error.
std::filesystem::path find_working_tree(std::filesystem::path directory);

// Of the working tree that contains `directory`, read from git's files; does not start a program,
// so it does not block. nullopt if there is no working tree, or its files are not as expected.
std::optional<GitState> read_git_state(const std::filesystem::path& directory);

}  // namespace lockstep::tracking
