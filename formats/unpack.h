// Files that may be compressed, with gzip or zstd, which their content tells. No LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "formats/mapped_file.h"

namespace lockstep::formats {

// True when `bytes` begin as a gzip or a zstd file does.
bool is_compressed(std::span<const uint8_t> bytes);

// The content of a compressed file. `name` stands for it in messages. Throws Config: damaged, cut,
// or more than 64 MiB that are also more than 1032 times as large as the file, which is what gzip
// can reach.
std::string unpacked(std::span<const uint8_t> bytes, const std::string& name);

// What `use(text, name)` makes of the content of a file, plain or compressed. Throws as MappedFile
// and unpacked().
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
