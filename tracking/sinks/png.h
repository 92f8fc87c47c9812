// Pixels as a PNG file, for Tracker::image().
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace lockstep::tracking {

// `pixels`: rows from the top, `channels` values per pixel: 1 (gray), 3 (red, green, blue) or 4
// (and opacity). Throws Bug when their number is not width * height * channels, or one of these is
// not positive, or channels is another number.
std::string encode_png(int width, int height, int channels, std::span<const uint8_t> pixels);

}  // namespace lockstep::tracking
