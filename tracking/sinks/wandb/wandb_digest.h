// Checksums of uploads, in the formats that W&B's server compares.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::tracking {

// MD5 of a file's content in base64. Throws Environment if it cannot be read.
std::string md5_base64(const std::filesystem::path& file);

}  // namespace lockstep::tracking
