// The IDX format of MNIST and similar datasets: four magic bytes (0, 0, element type, number of
// dimensions), the dimensions as big-endian 32-bit numbers, then the elements. Uncompressed or
// gzip, detected by content. No LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/mapped_file.h"

namespace lockstep::formats {

// Elements of one byte in row-major order.
struct IdxArray {
  std::vector<int64_t> dims;                           // 1 to 8 of them, each at least 1
  std::span<const uint8_t> values;                     // as many as the product of dims
  std::shared_ptr<const std::vector<uint8_t>> memory;  // set if `values` were decompressed
  std::shared_ptr<const MappedFile> mapped;            // set if `values` are in a mapped file
};

// Parses untrusted bytes; `values` is a part of them, unless they are compressed. Memory use is
// proportional to the input size (for gzip, to its maximum decompressed size). `name` is used as the
// file name in messages.
//
// Throws Config: not IDX, elements that are not unsigned bytes (0x08), a dimension of zero, more
// than 4 GiB of elements, a size that does not match the header, a corrupt gzip stream.
IdxArray parse_idx(std::span<const uint8_t> bytes, const std::string& name);

// Maps and parses a file. Throws as above, and as MappedFile.
IdxArray read_idx_file(const std::filesystem::path& path);

// "60000 x 28 x 28", for messages.
std::string dims_text(const std::vector<int64_t>& dims);

}  // namespace lockstep::formats
