// Reads files that may be compressed with gzip or zstd, detected by content. No LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "formats/mapped_file.h"

namespace lockstep::formats {

// Whether `bytes` start with the magic number of gzip or zstd.
bool is_compressed(std::span<const uint8_t> bytes);

// Decompresses a file. `name` is used as the file name in messages. Throws Config if it is corrupt
// or truncated, or if its content is larger than both 64 MiB and 1032 times the file size, the
// maximum ratio of gzip.
std::string unpacked(std::span<const uint8_t> bytes, const std::string& name);

// Returns use(text, name) for the content of a file, decompressed if necessary. Throws as
// MappedFile and unpacked().
template <class Use>
auto read_unpacked(const std::filesystem::path& path, const Use& use) {
  const MappedFile file(path);
  return file.read([&](std::span<const uint8_t> bytes) {
    if (is_compressed(bytes)) {
      const auto text = unpacked(bytes, file.name());
      return use(std::string_view(text), file.name());
    }
    return use(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
               file.name());
  });
}

}  // namespace lockstep::formats
