// numpy's .npy format: magic, version, a header that is the text of a Python dict, then the
// elements. No LibTorch.
// Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "formats/array_file.h"

namespace lockstep::formats {

// The array in `bytes`, which may be anything; its `bytes` point into them, or, of an array in
// Fortran order, into `memory`, where its elements are in row-major order. `name` stands for the
// file in messages and is the array's name.
//
// Throws Config: not .npy, truncated or too long, another byte order than this machine's, elements
// that are no numbers (objects, texts, dates) or that tensors have no type for.
StoredArray parse_npy(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace lockstep::formats
