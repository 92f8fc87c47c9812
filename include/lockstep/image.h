// An 8-bit RGB image in memory, as image transforms process it. No LibTorch.
//
// Example:
//   lockstep::RgbImage gray(int height, int width) {
//     auto image = lockstep::make_image({height, width});
//     std::fill(image.rgb.begin(), image.rgb.end(), uint8_t{128});
//     return image;
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

// In pixels.
struct ImageSize {
  int height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

// A rectangle of pixels. `left` and `top` may be outside the image; the size is positive.
struct ImageBox {
  int left = 0, top = 0;
  ImageSize size;
  bool operator==(const ImageBox&) const = default;
};

// The part of an image that is used; a decoder may skip the rest.
struct ImageNeed {
  ImageBox box;    // of the original
  ImageSize size;  // what the box is scaled to; a decoder need not return a higher resolution
};

struct RgbImage {
  ImageSize size;
  std::vector<uint8_t> rgb;  // [height][width][3]

  // With an ImageNeed, a decoder may crop or downscale: `covered` is the part of the original image
  // (of size `original`) that `rgb` contains.
  ImageSize original;
  ImageBox covered;

  const uint8_t* row(int y) const { return rgb.data() + size_t{3} * size.width * y; }
  uint8_t* row(int y) { return rgb.data() + size_t{3} * size.width * y; }
};

// An image of the given size with unspecified pixels; `covered` is the whole image.
inline RgbImage make_image(ImageSize size) {
  return {.size = size,
          .rgb = std::vector<uint8_t>(size_t{3} * size.height * size.width),
          .original = size,
          .covered = {0, 0, size}};
}

}  // namespace lockstep
