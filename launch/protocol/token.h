// The secret that the launchers of a job share. It is read from a file or the environment, never
// from a command line, and is never sent.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::launch {

// Reads the file or, without one, the environment variable LOCKSTEP_RDZV_TOKEN; empty if there is
// neither. Throws Config if the token is too short or the file is readable by other users.
std::string read_token(const std::optional<std::filesystem::path>& file);

// Creates `file`, readable by its owner only, with 64 random hexadecimal digits. Throws Config if
// it already exists, Environment if it cannot be written.
void make_token_file(const std::filesystem::path& file);

// `num_bytes` random bytes as hexadecimal digits.
std::string random_hex(int num_bytes);

}  // namespace lockstep::launch
