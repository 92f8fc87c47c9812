#include "formats/images/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

bool begins_with(std::span<const uint8_t> file, std::string_view magic) {
  return file.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), file.begin(),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

using namespace std::string_view_literals;

constexpr std::array<std::pair<std::string_view, const char*>, 9> kOtherFormats = {{
    {"GIF8"sv, "a GIF"},
    {"BM"sv, "a BMP"},
    {"RIFF"sv, "a RIFF file that is not WebP"},
    {"II*\0"sv, "a TIFF"},
    {"MM\0*"sv, "a TIFF"},
    {"\0\0\0\x0CjP  "sv, "a JPEG 2000"},
    {"\0\0\0\x0CJXL "sv, "a JPEG XL"},
    {"\xFF\x0A"sv, "a JPEG XL"},
    {"<", "text (HTML, SVG or XML)"},
}};

}  // namespace

RgbImage decode_image(std::span<const uint8_t> file, const std::string& name,
                      const DecodeOptions& options) {
  if (begins_with(file, "\xFF\xD8\xFF")) return decode_jpeg(file, name, options);
  if (begins_with(file, "\x89PNG\r\n\x1A\n")) return decode_png(file, name, options);
  if (begins_with(file, "RIFF") && file.size() >= 12 && begins_with(file.subspan(8), "WEBP"))
    return decode_webp(file, name, options);
  if (file.empty()) throw config_error(fmt::format("{}: the file is empty", name));
  std::string what = "not an image of a known format";
  for (const auto& [magic, format] : kOtherFormats)
    if (begins_with(file, magic)) what = format;
  // AVIF and HEIC files start with an "ftyp" box.
  if (file.size() > 12 && begins_with(file.subspan(4), "ftyp"))
    what = begins_with(file.subspan(8), "avif") ? "an AVIF" : "a HEIC or another MP4 file";
  throw config_error(fmt::format("{}: is {}; only JPEG, PNG and WebP are supported", name, what));
}

}  // namespace lockstep::formats
