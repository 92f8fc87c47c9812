#include "formats/images/orientation.h"

#include <algorithm>
#include <array>

namespace lockstep::formats {
namespace {

constexpr std::array<uint8_t, 6> kExifMark = {'E', 'x', 'i', 'f', 0, 0};
constexpr unsigned kOrientationTag = 0x0112;
constexpr size_t kEntryBytes = 12;

// Reads numbers of a TIFF structure in either byte order. Reads out of range return 0.
class TiffReader {
 public:
  explicit TiffReader(std::span<const uint8_t> bytes)
      : bytes_(bytes), big_endian_(!bytes.empty() && bytes[0] == 'M') {}

  unsigned number(size_t at, size_t size) const {
    unsigned value = 0;
    if (at > bytes_.size() || bytes_.size() - at < size) return 0;
    for (size_t i = 0; i < size; ++i)
      value = value << 8 | bytes_[at + (big_endian_ ? i : size - 1 - i)];
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool big_endian_;
};

}  // namespace

bool begins_with_exif(std::span<const uint8_t> bytes) {
  return bytes.size() >= kExifMark.size() && std::ranges::equal(bytes.first<6>(), kExifMark);
}

int exif_orientation(std::span<const uint8_t> exif) {
  if (begins_with_exif(exif)) exif = exif.subspan(kExifMark.size());
  const TiffReader tiff(exif);
  const size_t directory = tiff.number(4, 4);
  const auto count = tiff.number(directory, 2);
  for (size_t i = 0; i < count; ++i) {
    const auto entry = directory + 2 + i * kEntryBytes;
    if (tiff.number(entry, 2) != kOrientationTag) continue;
    const auto value = tiff.number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

RgbImage turned(const RgbImage& image, int orientation) {
  const bool transposed = orientation >= 5;
  const bool mirrored_x =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool mirrored_y =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const auto size = transposed ? ImageSize{image.size.width, image.size.height} : image.size;
  auto result = make_image(size);
  for (int y = 0; y < image.size.height; ++y) {
    const auto* source = image.row(y);
    for (int x = 0; x < image.size.width; ++x, source += 3) {
      const int column = mirrored_x ? image.size.width - 1 - x : x;
      const int line = mirrored_y ? image.size.height - 1 - y : y;
      auto* target = transposed ? result.row(column) + 3 * line : result.row(line) + 3 * column;
      std::copy_n(source, 3, target);
    }
  }
  return result;
}

}  // namespace lockstep::formats
