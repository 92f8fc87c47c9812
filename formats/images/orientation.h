// EXIF orientation of photos.
#pragma once

#include <span>

#include "lockstep/image.h"

namespace lockstep::formats {

// The orientation, 1 (upright) to 8, in a JPEG's APP1 marker; 1 if it is missing or invalid.
int exif_orientation(std::span<const uint8_t> marker);

// The image, rotated and mirrored from `orientation` (1 to 8) to upright.
RgbImage turned(const RgbImage& image, int orientation);

}  // namespace lockstep::formats
