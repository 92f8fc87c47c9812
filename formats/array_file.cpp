#include "formats/array_file.h"

#include <fmt/format.h>

#include "formats/idx_file.h"

namespace lockstep::formats {

std::string array_text(const StoredArray& array) {
  if (array.shape.empty()) return fmt::format("{}, a single number", name_of(array.type));
  return fmt::format("{} {}", name_of(array.type), dims_text(array.shape));
}

}  // namespace lockstep::formats
