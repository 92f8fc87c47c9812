#include "formats/element_type.h"

#include <array>
#include <cstdint>

namespace lockstep::formats {
namespace {

struct KnownElement {
  ElementType type;
  const char* name;
  size_t bytes;
};

constexpr std::array<KnownElement, 12> kElements = {{{ElementType::Bool, "bool", 1},
                                                     {ElementType::U8, "uint8", 1},
                                                     {ElementType::I8, "int8", 1},
                                                     {ElementType::U16, "uint16", 2},
                                                     {ElementType::I16, "int16", 2},
                                                     {ElementType::U32, "uint32", 4},
                                                     {ElementType::I32, "int32", 4},
                                                     {ElementType::I64, "int64", 8},
                                                     {ElementType::F16, "float16", 2},
                                                     {ElementType::BF16, "bfloat16", 2},
                                                     {ElementType::F32, "float32", 4},
                                                     {ElementType::F64, "float64", 8}}};

}  // namespace

size_t bytes_of(ElementType type) { return kElements[static_cast<size_t>(type)].bytes; }

const char* name_of(ElementType type) { return kElements[static_cast<size_t>(type)].name; }

std::optional<size_t> num_elements(const std::vector<int64_t>& shape) {
  uint64_t count = 1;
  for (const auto extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, static_cast<uint64_t>(extent), &count) ||
        count > INT64_MAX)
      return std::nullopt;
  return count;
}

}  // namespace lockstep::formats
