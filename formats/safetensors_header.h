// The header of a safetensors file: eight bytes of length, a JSON map from name to {dtype, shape,
// data_offsets}, then the data. Torch-free, so that hostile bytes can be thrown at it alone.
// Source: https://github.com/huggingface/safetensors (format description in its README).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::formats {

struct TensorEntry {
  std::string name;
  std::string dtype;  // "F32", "I64", ...
  std::vector<int64_t> shape;
  size_t begin = 0, end = 0;  // bytes of the file
};

// Bytes per element; 0 for an unknown dtype.
size_t dtype_bytes(const std::string& dtype);

// Parses and verifies the header of a whole file: every tensor inside it, sizes that fit shape and
// dtype, no overlap. `name` stands for the file in messages. Returns the entries in the order of
// their data. Throws an error of kind `kind`: a checkpoint that is damaged may have a good
// neighbor, a data file has none.
std::vector<TensorEntry> parse_safetensors(std::span<const uint8_t> file, const std::string& name,
                                           ErrorKind kind = ErrorKind::Environment);

// The header for entries whose begin and end count from the start of the data; a multiple of 8
// bytes long.
std::string make_safetensors_header(const std::vector<TensorEntry>& entries);

}  // namespace lockstep::formats
