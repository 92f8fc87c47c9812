// The header of a safetensors file: eight bytes of length, a JSON object that maps names to {dtype,
// shape, data_offsets}, then the data. No LibTorch, so that it can be fuzzed separately.
// Source: https://github.com/huggingface/safetensors (format description in its README).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::formats {

struct TensorEntry {
  std::string name;
  std::string dtype;  // "F32", "I64", ...
  std::vector<int64_t> shape;
  size_t begin = 0, end = 0;  // byte offsets in the file
};

// Bytes per element; 0 for an unknown dtype.
size_t dtype_bytes(const std::string& dtype);

// Parses and verifies the header of a complete file: all tensors are inside the file, sizes match
// shape and dtype, and tensors do not overlap. `name` is used as the file name in messages. Returns
// the entries in the order of their data. Throws an error of kind `kind`: Environment for
// checkpoints, where an older one may be intact, Config for data files.
std::vector<TensorEntry> parse_safetensors(std::span<const uint8_t> file, const std::string& name,
                                           ErrorKind kind = ErrorKind::Environment);

// What a file says about itself, under "__metadata__".
using SafetensorsMetadata = std::map<std::string, std::string>;

// Creates the header for entries whose `begin` and `end` are relative to the start of the data. Its
// length is a multiple of 8 bytes.
std::string make_safetensors_header(const std::vector<TensorEntry>& entries,
                                    const SafetensorsMetadata& metadata = {});

}  // namespace lockstep::formats
