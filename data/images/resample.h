// Scaling images as Python's PIL does: Image.resize(size, BILINEAR), to the bit.
#pragma once

#include "lockstep/image.h"

namespace lockstep::data {

// The image in another size. Shrinking averages over all pixels that fall together.
RgbImage resampled(const RgbImage& image, ImageSize size);

// A part of the image; what lies outside it is black.
RgbImage cropped(const RgbImage& image, const ImageBox& box);

}  // namespace lockstep::data
