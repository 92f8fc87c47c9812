// JPEG, PNG and WebP files in memory to pixels. What a file is, its content says, not its name.
//
// The pixels are those of Python's PIL.Image.open(...).convert("RGB") of the same libjpeg-turbo:
// gray becomes three equal channels, a palette its colors, CMYK is converted, alpha is dropped,
// 16 bits are cut to 8. (PIL alone turns 16-bit gray into white.) Of an animated WebP the first
// frame counts.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "lockstep/image.h"

namespace lockstep::formats {

struct DecodeOptions {
  int64_t max_pixels = 100'000'000;  // larger images are refused before memory is taken
  bool exif_orientation = false;     // turn a JPEG as its EXIF data say
  bool scaled = false;               // JPEG: decode at 1/2, 1/4 or 1/8 where that is enough
  // Called once, with the size of the original; empty: all of it is needed. Ignored for an image
  // that has to be turned.
  std::function<std::optional<ImageNeed>(ImageSize)> need;
};

// `name` stands for the file in messages. Throws Config: neither JPEG, PNG nor WebP, damaged,
// truncated, too large, of a kind that is not read.
RgbImage decode_image(std::span<const uint8_t> file, const std::string& name,
                      const DecodeOptions& options = {});

// The decoders behind it. Throws Config as above.
RgbImage decode_jpeg(std::span<const uint8_t> file, const std::string& name,
                     const DecodeOptions& options);
RgbImage decode_png(std::span<const uint8_t> file, const std::string& name,
                    const DecodeOptions& options);
RgbImage decode_webp(std::span<const uint8_t> file, const std::string& name,
                     const DecodeOptions& options);

}  // namespace lockstep::formats
