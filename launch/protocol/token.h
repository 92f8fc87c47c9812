// The secret that the launchers of one job share. It is read from a file or the environment, never
// from a command line, and never leaves the process.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::launch {

// Of the file, or of the environment variable LOCKSTEP_RDZV_TOKEN; empty when there is neither.
// Throws Config: too short, or a file that others may read.
std::string read_token(const std::optional<std::filesystem::path>& file);

// Creates `file`, readable by its owner only, with 64 random hexadecimal digits. Throws Config when
// it exists already, Environment when it cannot be written.
void make_token_file(const std::filesystem::path& file);

// `num_bytes` random bytes as hexadecimal digits.
std::string random_hex(int num_bytes);

}  // namespace lockstep::launch
