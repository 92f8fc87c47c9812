// EXIF orientation of photos.
#pragma once

#include <span>

#include "lockstep/image.h"

namespace lockstep::formats {

// Whether the bytes begin with "Exif\0\0", as the APP1 marker of a JPEG that has EXIF data.
bool begins_with_exif(std::span<const uint8_t> bytes);

// The orientation, 1 (upright) to 8, in EXIF data, with or without "Exif\0\0"; 1 if it is missing or
// invalid.
int exif_orientation(std::span<const uint8_t> exif);

// The image, rotated and mirrored from `orientation` (1 to 8) to upright.
RgbImage turned(const RgbImage& image, int orientation);

}  // namespace lockstep::formats
