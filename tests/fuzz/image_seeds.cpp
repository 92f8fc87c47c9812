#include <cstdio>
#include <cstdlib>
#include <string_view>
// libjpeg's header requires the one above.
#include <jpeglib.h>
#include <webp/encode.h>

#include "formats/images/decode.h"
#include "tests/fuzz/seeds.h"
#include "tracking/sinks/png.h"

namespace lockstep {
namespace {

RgbImage colors(ImageSize size) {
  auto image = make_image(size);
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<uint8_t>(i * i / 7);
  return image;
}

// `channels`: 1 gray, 3 color, 4 CMYK.
std::string jpeg(ImageSize size, int channels, bool progressive) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&info, &bytes, &count);
  info.image_width = static_cast<JDIMENSION>(size.width);
  info.image_height = static_cast<JDIMENSION>(size.height);
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  if (progressive) jpeg_simple_progression(&info);
  info.restart_interval = 2;
  jpeg_start_compress(&info, TRUE);
  // Little-endian EXIF data with a single entry, orientation 6.
  constexpr std::string_view exif(
      "Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0", 32);
  jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                    static_cast<unsigned>(exif.size()));
  auto image = colors({size.height, size.width * 2});
  for (int y = 0; y < size.height; ++y) {
    auto* row = image.row(y);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<const char*>(bytes), count);
  std::free(bytes);
  return file;
}

std::string webp(ImageSize size, bool lossless) {
  const auto image = colors(size);
  uint8_t* bytes = nullptr;
  const auto stride = 3 * size.width;
  const auto count =
      lossless ? WebPEncodeLosslessRGB(image.rgb.data(), size.width, size.height, stride, &bytes)
               : WebPEncodeRGB(image.rgb.data(), size.width, size.height, stride, 50, &bytes);
  std::string file(reinterpret_cast<const char*>(bytes), count);
  WebPFree(bytes);
  return file;
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {tracking::encode_png(7, 5, 3, colors({5, 7}).rgb),
          jpeg({16, 24}, 3, false),
          jpeg({40, 33}, 3, true),
          jpeg({9, 9}, 1, false),
          jpeg({20, 20}, 4, false),
          jpeg({64, 64}, 3, false),
          webp({17, 23}, false),
          webp({9, 12}, true)};
}

}  // namespace lockstep
