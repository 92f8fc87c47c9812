// Atomic file replacement: after a crash at any point, a file has either its old or its new
// content.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep {

// Writes a temporary file in the same directory, syncs it, renames it to `path` and syncs the
// directory. Throws Environment (full disk, no permission, ...), leaving `path` unchanged and no
// temporary file.
void write_file_durably(const std::filesystem::path& path, std::string_view content);

// Writes a file that a user names. A device or pipe, such as /dev/stdout, is written to and not
// replaced; of a symbolic link, the file that it names is written as write_file_durably() does it.
void write_output_file(const std::filesystem::path& path, std::string_view content);

// Writes all of `content`. Throws Environment, with `path` in the message.
void write_all(int fd, std::string_view content, const std::filesystem::path& path);

// Reads a regular file. Throws Environment, also if it is larger than `max_bytes`.
std::string read_file(const std::filesystem::path& path, size_t max_bytes = 64u << 20);

// Syncs the entries of `directory` to disk. Throws Environment.
void sync_directory(const std::filesystem::path& directory);

// Creates `directory` and its parents. Throws Environment, naming the first directory that could
// not be created.
void make_directories(const std::filesystem::path& directory);

}  // namespace lockstep
