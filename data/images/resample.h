// Resamples images with the bits of Python's PIL: Image.resize(size, BILINEAR).
#pragma once

#include "lockstep/image.h"

namespace lockstep::data {

// The image in another size. Downscaling averages all pixels that an output pixel covers.
RgbImage resampled(const RgbImage& image, ImageSize size);

// A part of the image, padded with black outside.
RgbImage cropped(const RgbImage& image, const ImageBox& box);

}  // namespace lockstep::data
