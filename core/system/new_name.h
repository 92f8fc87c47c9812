// Gives a finished file or directory its final name, without replacing another.
#pragma once

#include <filesystem>

namespace lockstep {

// Renames `temporary` to `target`. Throws Environment, also if `target` exists. Atomic, except on
// network file systems without RENAME_NOREPLACE.
void rename_to_new(const std::filesystem::path& temporary, const std::filesystem::path& target);

}  // namespace lockstep
