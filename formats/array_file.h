// A named array of numbers in memory or in a mapped file; the common result of array file readers.
// No LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/element_type.h"
#include "formats/mapped_file.h"

namespace lockstep::formats {

// An array in row-major order.
struct StoredArray {
  std::string name;
  ElementType type = ElementType::U8;
  std::vector<int64_t> shape;
  std::span<const uint8_t> bytes;            // num_elements(shape) * bytes_of(type)
  std::shared_ptr<const void> memory;        // owner of `bytes`
  std::shared_ptr<const MappedFile> mapped;  // set if `bytes` are in a mapped file
  bool is_compressed = false;                // in its file, whose size then says nothing about it
};

// "float32 60000 x 28 x 28", for messages.
std::string array_text(const StoredArray& array);

}  // namespace lockstep::formats
