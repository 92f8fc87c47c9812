// Files that are whole or absent: a kill at any point leaves the old content or the new one.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep {

// Writes a neighboring temporary file, syncs it, renames it over `path` and syncs the directory.
// Throws Environment (full disk, no permission, ...), leaving `path` as it was and no temporary
// file.
void write_file_durably(const std::filesystem::path& path, std::string_view content);

// Writes all of `content`. Throws Environment; `path`: for its message.
void write_all(int fd, std::string_view content, const std::filesystem::path& path);

// Throws Environment. `max_bytes`: larger files are refused.
std::string read_file(const std::filesystem::path& path, size_t max_bytes = 64u << 20);

// Makes the names inside `directory` durable. Throws Environment.
void sync_directory(const std::filesystem::path& directory);

// Creates `directory` and its parents. Throws Environment, naming the first one that could not be
// made.
void make_directories(const std::filesystem::path& directory);

}  // namespace lockstep
