// The IDX format of MNIST and its relatives: four magic bytes (0, 0, element type, number of
// dimensions), the dimensions as big-endian 32-bit numbers, then the elements. Plain or gzip, told
// apart by content. No LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lockstep::formats {

// Elements of one byte in row-major order.
struct IdxArray {
  std::vector<int64_t> dims;    // 1 to 8 of them, each at least 1
  std::vector<uint8_t> values;  // as many as the product of dims
};

// The array in `bytes`, which may be anything: memory taken stays in proportion to what is really
// there (for gzip, to the most that it can hold). `name` stands for the file in messages.
//
// Throws Config: not IDX, elements that are not unsigned bytes (0x08), a dimension of zero, more
// than 4 GiB of elements, fewer or more bytes than the header announces, a damaged gzip stream.
IdxArray parse_idx(std::span<const uint8_t> bytes, const std::string& name);

// The same for a file. Throws Config as above; Environment when it cannot be read.
IdxArray read_idx_file(const std::filesystem::path& path);

// "60000 x 28 x 28", for messages.
std::string dims_text(const std::vector<int64_t>& dims);

}  // namespace lockstep::formats
