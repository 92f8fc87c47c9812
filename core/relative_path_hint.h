// A part of messages about files that are not there.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep {

// " (data paths are relative to the working directory, /home/ada)" for `kind` "data"; empty for
// absolute paths.
std::string relative_path_hint(const std::filesystem::path& path, std::string_view kind);

}  // namespace lockstep
