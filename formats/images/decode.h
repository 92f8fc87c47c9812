// Decodes JPEG, PNG and WebP files in memory; the format is detected by content.
//
// The pixels equal those of Python's PIL.Image.open(...).convert("RGB") with the same
// libjpeg-turbo: grayscale becomes three equal channels, palettes are resolved, CMYK is converted,
// alpha is dropped, 16 bits are truncated to 8. (PIL converts 16-bit grayscale to white.) Only the
// first frame of an animated WebP is decoded.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "lockstep/image.h"

namespace lockstep::formats {

struct DecodeOptions {
  int64_t max_pixels = 100'000'000;  // larger images are rejected before memory is allocated
  bool exif_orientation = false;     // apply the orientation in EXIF data
  bool scaled = false;               // JPEG: decode at 1/2, 1/4 or 1/8 if that is sufficient
  // Called once, with the original size; empty: the whole image is needed. Ignored for images that
  // must be rotated.
  std::function<std::optional<ImageNeed>(ImageSize)> need;
};

// `name` is used as the file name in messages. Throws Config: not JPEG, PNG or WebP, corrupt,
// truncated, too large, or an unsupported variant.
RgbImage decode_image(std::span<const uint8_t> file, const std::string& name,
                      const DecodeOptions& options = {});

// The decoders used by decode_image(). Throw Config as above.
RgbImage decode_jpeg(std::span<const uint8_t> file, const std::string& name,
                     const DecodeOptions& options);
RgbImage decode_png(std::span<const uint8_t> file, const std::string& name,
                    const DecodeOptions& options);
RgbImage decode_webp(std::span<const uint8_t> file, const std::string& name,
                     const DecodeOptions& options);

}  // namespace lockstep::formats
