// Which way up a photo is: the orientation in its EXIF data.
#pragma once

#include <span>

#include "lockstep/image.h"

namespace lockstep::formats {

// 1 (upright) to 8, from the content of a JPEG's APP1 marker; 1 for anything that does not say.
int exif_orientation(std::span<const uint8_t> marker);

// The image turned and mirrored so that `orientation`, 1 to 8, becomes 1.
RgbImage turned(const RgbImage& image, int orientation);

}  // namespace lockstep::formats
