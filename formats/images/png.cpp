// PNG decoder based on libpng, which reports errors with longjmp: functions between setjmp and the
// library must not have objects with destructors.
#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "formats/images/decode.h"
#include "formats/images/orientation.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr png_uint_32 kMaxSide = 1'000'000;
constexpr png_alloc_size_t kMaxChunkBytes = 64 << 20;

struct Failure {
  char message[160] = {};
};

[[noreturn]] void on_png_error(png_structp png, png_const_charp message) {
  auto* failure = static_cast<Failure*>(png_get_error_ptr(png));
  std::snprintf(failure->message, sizeof(failure->message), "%s", message);
  png_longjmp(png, 1);
}

void on_png_warning(png_structp, png_const_charp) {}

class PngDecoder {
 public:
  PngDecoder(std::span<const uint8_t> file, const std::string& name) : rest_(file), name_(name) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &failure_, on_png_error, on_png_warning);
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    if (!info_) throw environment_error("cannot allocate a PNG decoder");
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, info_ ? &info_ : nullptr, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  RgbImage decode(const DecodeOptions& options) {
    if (!read_header()) throw failed();
    const auto width = png_get_image_width(png_, info_);
    const auto height = png_get_image_height(png_, info_);
    if (uint64_t{width} * height > static_cast<uint64_t>(options.max_pixels))
      throw config_error(fmt::format("{}: {} x {} pixels are more than the limit of {}", name_,
                                     width, height, options.max_pixels));
    if (!choose_rgb()) throw failed();
    auto image = make_image({static_cast<int>(height), static_cast<int>(width)});
    std::vector<png_bytep> rows;
    for (int y = 0; y < image.size.height; ++y) rows.push_back(image.row(y));
    if (!read_rows(rows.data())) throw failed();
    if (!options.exif_orientation) return image;
    if (!read_end()) throw failed();
    const auto turn = exif_orientation(exif());
    return turn == 1 ? std::move(image) : turned(image, turn);
  }

 private:
  Error failed() const {
    return config_error(fmt::format("{}: corrupt PNG: {}", name_, failure_.message));
  }

  static void read_bytes(png_structp png, png_bytep out, size_t size) {
    auto& rest = static_cast<PngDecoder*>(png_get_io_ptr(png))->rest_;
    if (rest.size() < size) png_error(png, "truncated file");
    std::memcpy(out, rest.data(), size);
    rest = rest.subspan(size);
  }

  bool read_header() {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_set_read_fn(png_, this, read_bytes);
    png_set_user_limits(png_, kMaxSide, kMaxSide);
    png_set_chunk_malloc_max(png_, kMaxChunkBytes);
    png_read_info(png_, info_);
    return true;
  }

  bool choose_rgb() {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_set_expand(png_);  // palettes and few bits to 8 bits
    png_set_strip_16(png_);
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != size_t{3} * png_get_image_width(png_, info_))
      png_error(png_, "unsupported pixel format");
    return true;
  }

  bool read_rows(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_read_image(png_, rows);
    return true;
  }

  // EXIF data may follow the pixels.
  bool read_end() {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_read_end(png_, info_);
    return true;
  }

  std::span<const uint8_t> exif() const {
    png_bytep bytes = nullptr;
    png_uint_32 size = 0;
    if (png_get_eXIf_1(png_, info_, &size, &bytes) == 0) return {};
    return {bytes, size};
  }

  std::span<const uint8_t> rest_;
  const std::string& name_;
  Failure failure_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

RgbImage decode_png(std::span<const uint8_t> file, const std::string& name,
                    const DecodeOptions& options) {
  return PngDecoder(file, name).decode(options);
}

}  // namespace lockstep::formats
