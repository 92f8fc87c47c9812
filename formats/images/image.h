// An image while it is being prepared: 8 bits each of red, green and blue. No LibTorch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

struct ImageSize {
  int height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

// A part of an image in its pixels; left and top may be anything, the size is positive.
struct ImageBox {
  int left = 0, top = 0;
  ImageSize size;
  bool operator==(const ImageBox&) const = default;
};

struct RgbImage {
  ImageSize size;
  std::vector<uint8_t> rgb;  // height x width x 3, row by row

  // A decoder that knows what will be used may leave out the rest or shrink it: `covered` is the
  // part of the original, which has `original` pixels, that `rgb` shows. Without that, all of it.
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
