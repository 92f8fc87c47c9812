// An image while it is prepared: 8 bits each of red, green and blue. No LibTorch.
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

// A rectangle in the pixels of an image. `left` and `top` may lie outside; the size is positive.
struct ImageBox {
  int left = 0, top = 0;
  ImageSize size;
  bool operator==(const ImageBox&) const = default;
};

// What part of an image is used, so that a decoder may skip the rest.
struct ImageNeed {
  ImageBox box;    // of the original
  ImageSize size;  // what the box is scaled to: a decoder need not be more precise
};

struct RgbImage {
  ImageSize size;
  std::vector<uint8_t> rgb;  // [height][width][3]

  // A decoder that was given an ImageNeed may skip or shrink the rest: `covered` is the part of the
  // original, of `original` pixels, that `rgb` shows.
  ImageSize original;
  ImageBox covered;

  const uint8_t* row(int y) const { return rgb.data() + size_t{3} * size.width * y; }
  uint8_t* row(int y) { return rgb.data() + size_t{3} * size.width * y; }
};

// An image of undefined pixels that covers all of itself.
inline RgbImage make_image(ImageSize size) {
  return {.size = size,
          .rgb = std::vector<uint8_t>(size_t{3} * size.height * size.width),
          .original = size,
          .covered = {0, 0, size}};
}

}  // namespace lockstep
