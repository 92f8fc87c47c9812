// Element types of array files. No LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::formats {

enum class ElementType { Bool, U8, I8, U16, I16, U32, I32, I64, F16, BF16, F32, F64 };

size_t bytes_of(ElementType type);

// "uint8", "float32", ..., as in NumPy and PyTorch.
const char* name_of(ElementType type);

// The number of elements of an array, 1 for an empty shape; nullopt if it exceeds 63 bits or a
// dimension is negative.
std::optional<size_t> num_elements(const std::vector<int64_t>& shape);

}  // namespace lockstep::formats
