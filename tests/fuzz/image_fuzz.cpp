// Arbitrary bytes are either a consistent image or a Config error, also if only a part of the image
// is decoded.
#include <cstdlib>

#include "formats/images/decode.h"
#include "lockstep/error.h"

namespace {

void decode(std::span<const uint8_t> file, const lockstep::formats::DecodeOptions& options) {
  try {
    const auto image = lockstep::formats::decode_image(file, "input", options);
    const auto& [height, width] = image.size;
    if (height < 1 || width < 1 || image.rgb.size() != size_t{3} * height * width) std::abort();
  } catch (const lockstep::Error& error) {
    if (error.kind() != lockstep::ErrorKind::Config) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  decode({data, size}, {.max_pixels = 1 << 16, .exif_orientation = true});
  // The lower right quarter, at a quarter of its size.
  const auto corner = [](lockstep::ImageSize whole) {
    const lockstep::ImageSize half = {(whole.height + 1) / 2, (whole.width + 1) / 2};
    return lockstep::ImageNeed{.box = {whole.width - half.width, whole.height - half.height, half},
                               .size = {half.height / 4 + 1, half.width / 4 + 1}};
  };
  decode({data, size}, {.max_pixels = 1 << 16, .scaled = true, .need = corner});
  return 0;
}
