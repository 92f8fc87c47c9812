// PNG encoder for Tracker::image().
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace lockstep::tracking {

// `pixels`: rows from the top, `channels` values per pixel: 1 (gray), 3 (red, green, blue) or 4
// (with alpha). Throws Bug if the number of pixels is not width * height * channels, a dimension is
// not positive, or the number of channels is not supported.
std::string encode_png(int width, int height, int channels, std::span<const uint8_t> pixels);

}  // namespace lockstep::tracking
