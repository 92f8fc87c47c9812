#include "data/images/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"

namespace lockstep {
namespace {

bool begins_with(std::span<const uint8_t> file, std::string_view magic) {
  return file.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), file.begin(),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

constexpr std::array<std::pair<std::string_view, const char*>, 6> kOtherFormats = {{
    {"GIF8", "a GIF"},
    {"BM", "a BMP"},
    {"RIFF", "a WebP or another RIFF file"},
    {"II*\0", "a TIFF"},
    {"MM\0*", "a TIFF"},
    {"<", "text (HTML, SVG or XML)"},
}};

}  // namespace

RgbImage decode_image(std::span<const uint8_t> file, const std::string& name,
                      const DecodeOptions& options) {
  if (begins_with(file, "\xFF\xD8\xFF")) return decode_jpeg(file, name, options);
  if (begins_with(file, "\x89PNG\r\n\x1A\n")) return decode_png(file, name, options);
  if (file.empty()) throw config_error(fmt::format("{}: the file is empty", name));
  std::string what = "no image that is known";
  for (const auto& [magic, format] : kOtherFormats)
    if (begins_with(file, magic)) what = format;
  throw config_error(fmt::format("{}: it is {}; JPEG and PNG are read", name, what));
}

}  // namespace lockstep
