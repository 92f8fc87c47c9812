// NumPy's .npy format: magic, version, a header that is a Python dict literal, then the elements.
// No LibTorch. Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "formats/array_file.h"

namespace lockstep::formats {

// Parses untrusted bytes. The `bytes` of the result point into the input or, for arrays in Fortran
// order, into `memory`, a row-major copy. `name` is the name of the array and the file name in
// messages.
//
// Throws Config: not .npy, truncated or too long, a byte order other than that of this machine,
// elements that are not numbers (objects, strings, dates) or have no corresponding tensor type.
StoredArray parse_npy(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace lockstep::formats
