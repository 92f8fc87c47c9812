#include "tracking/sinks/png.h"

#include <fmt/format.h>
#include <png.h>

#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

png_uint_32 png_format(int channels) {
  return channels == 1 ? PNG_FORMAT_GRAY : channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
}

}  // namespace

std::string encode_png(int width, int height, int channels, std::span<const uint8_t> pixels) {
  check(width > 0 && height > 0 && (channels == 1 || channels == 3 || channels == 4),
        "image has no pixels, or its channels are not 1, 3 or 4");
  check(pixels.size() == static_cast<size_t>(width) * static_cast<size_t>(height) *
                             static_cast<size_t>(channels),
        "number of values is not width * height * channels");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = png_format(channels);
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(size, '\0');
  const bool written =
      png_image_write_to_memory(&image, file.data(), &size, 0, pixels.data(), 0, nullptr) != 0;
  check(written, fmt::format("cannot encode image as PNG: {}", image.message).c_str());
  file.resize(size);
  return file;
}

}  // namespace lockstep::tracking
