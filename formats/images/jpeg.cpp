// JPEG decoder based on libjpeg-turbo, which reports errors with longjmp: functions between setjmp
// and the library must not have objects with destructors.
#include <csetjmp>
#include <cstdio>
// The library's header needs the types of the two above.
#include <jpeglib.h>
//
#include <fmt/format.h>
#include <jerror.h>

#include <algorithm>

#include "formats/images/decode.h"
#include "formats/images/orientation.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr int kMaxScans = 200;      // a malicious progressive file can have thousands
constexpr int kMarginColumns = 32;  // around a crop, so that smoothing has its usual inputs
constexpr unsigned kExif = JPEG_APP0 + 1;

struct ErrorManager {
  jpeg_error_mgr base;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void jump_out(j_common_ptr info) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  manager->base.format_message(info, manager->message);
  std::longjmp(manager->jump, 1);
}

// Treats warnings about lost data as errors: the library would continue with gray pixels.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA: return;
    default: jump_out(info);
  }
}

void on_progress(j_common_ptr info) {
  auto* decoder = reinterpret_cast<j_decompress_ptr>(info);
  if (decoder->input_scan_number <= kMaxScans) return;
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  std::snprintf(manager->message, sizeof(manager->message), "more than %d scans", kMaxScans);
  std::longjmp(manager->jump, 1);
}

// Rows and columns of the scaled image that are decoded.
struct Window {
  JDIMENSION left = 0, width = 0, top = 0, height = 0;
};

class JpegDecoder {
 public:
  JpegDecoder(std::span<const uint8_t> file, const std::string& name) : file_(file), name_(name) {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = jump_out;
    errors_.base.emit_message = on_message;
    progress_.progress_monitor = on_progress;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  RgbImage decode(const DecodeOptions& options) {
    if (!read_header()) throw failed();
    const ImageSize original = {static_cast<int>(info_.image_height),
                                static_cast<int>(info_.image_width)};
    const auto pixels = int64_t{original.height} * original.width;
    if (pixels > options.max_pixels)
      throw config_error(fmt::format("{}: {} x {} pixels are more than the limit of {}", name_,
                                     original.width, original.height, options.max_pixels));
    const auto turn = options.exif_orientation ? exif_orientation(exif()) : 1;
    std::optional<ImageNeed> need;
    if (options.need && turn == 1) need = options.need(original);
    if (!start(need && options.scaled ? denominator(*need) : 1)) throw failed();
    auto image = read_pixels(original, need);
    return turn == 1 ? std::move(image) : turned(image, turn);
  }

 private:
  Error failed() const {
    return config_error(fmt::format("{}: corrupt JPEG: {}", name_, errors_.message));
  }

  bool read_header() {
    if (setjmp(errors_.jump)) return false;
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, file_.data(), file_.size());
    jpeg_save_markers(&info_, kExif, 0xFFFF);
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  std::span<const uint8_t> exif() const {
    for (auto* marker = info_.marker_list; marker; marker = marker->next) {
      const std::span<const uint8_t> data(marker->data, marker->data_length);
      if (marker->marker == kExif && begins_with_exif(data)) return data;  // others are XMP
    }
    return {};
  }

  static unsigned denominator(const ImageNeed& need) {
    unsigned result = 1;
    while (result < 8 && need.box.size.width >= need.size.width * static_cast<int>(2 * result) &&
           need.box.size.height >= need.size.height * static_cast<int>(2 * result))
      result *= 2;
    return result;
  }

  bool start(unsigned denominator) {
    if (setjmp(errors_.jump)) return false;
    const bool four = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = four ? JCS_CMYK : JCS_RGB;
    info_.scale_num = 1;
    info_.scale_denom = denominator;
    jpeg_start_decompress(&info_);
    return true;
  }

  // The needed part in pixels of the scaled image; columns include a margin.
  Window window(const std::optional<ImageNeed>& need) const {
    const Window all = {0, info_.output_width, 0, info_.output_height};
    if (!need) return all;
    const auto scale = static_cast<int>(info_.scale_denom);
    const auto& box = need->box;
    const int right = (box.left + box.size.width + scale - 1) / scale + kMarginColumns;
    const int bottom = (box.top + box.size.height + scale - 1) / scale;
    Window window;
    window.left = static_cast<JDIMENSION>(std::max(0, box.left / scale - kMarginColumns));
    window.width = std::min(static_cast<JDIMENSION>(right), all.width) - window.left;
    window.top = static_cast<JDIMENSION>(std::max(0, box.top / scale));
    window.height = std::min(static_cast<JDIMENSION>(bottom), all.height) - window.top;
    return window;
  }

  RgbImage read_pixels(ImageSize original, const std::optional<ImageNeed>& need) {
    auto cut = window(need);
    if (!narrow(cut)) throw failed();
    auto image = make_image({static_cast<int>(cut.height), static_cast<int>(cut.width)});
    const auto scale = static_cast<int>(info_.scale_denom);
    image.original = original;
    image.covered = {static_cast<int>(cut.left) * scale,
                     static_cast<int>(cut.top) * scale,
                     {image.size.height * scale, image.size.width * scale}};
    // The size of a scaled image is rounded up.
    image.covered.size.width =
        std::min(image.covered.size.width, original.width - image.covered.left);
    image.covered.size.height =
        std::min(image.covered.size.height, original.height - image.covered.top);
    const bool four = info_.output_components == 4;
    std::vector<uint8_t> line(four ? size_t{4} * cut.width : 0);
    if (!read_rows(image.rgb.data(), cut, four ? line.data() : nullptr)) throw failed();
    return image;
  }

  // Skips columns and rows before the window; widens the window's columns to complete blocks.
  bool narrow(Window& cut) {
    if (setjmp(errors_.jump)) return false;
    if (cut.width < info_.output_width) jpeg_crop_scanline(&info_, &cut.left, &cut.width);
    if (cut.top > 0 && jpeg_skip_scanlines(&info_, cut.top) != cut.top)
      ERREXIT(&info_, JERR_BAD_CROP_SPEC);
    return true;
  }

  bool read_rows(uint8_t* rgb, const Window& cut, uint8_t* line) {
    if (setjmp(errors_.jump)) return false;
    for (JDIMENSION y = 0; y < cut.height; ++y) {
      auto* target = rgb + size_t{3} * cut.width * y;
      auto* row = line ? line : target;
      jpeg_read_scanlines(&info_, &row, 1);
      if (line) convert_cmyk(line, target, cut.width);
    }
    // The end of the file is verified only if all rows were decoded.
    if (info_.output_scanline == info_.output_height) jpeg_finish_decompress(&info_);
    return true;
  }

  // CMYK files store the complement of the ink. Computes a rounded division by 255 without
  // dividing.
  static void convert_cmyk(const uint8_t* cmyk, uint8_t* rgb, JDIMENSION width) {
    for (JDIMENSION x = 0; x < width; ++x, cmyk += 4)
      for (int channel = 0; channel < 3; ++channel) {
        const unsigned light = cmyk[3];
        const unsigned product = (255u - cmyk[channel]) * light + 128;
        const unsigned ink = ((product >> 8) + product) >> 8;
        *rgb++ = static_cast<uint8_t>(light > ink ? light - ink : 0);
      }
  }

  std::span<const uint8_t> file_;
  const std::string& name_;
  jpeg_decompress_struct info_{};
  jpeg_progress_mgr progress_{};
  ErrorManager errors_{};
};

}  // namespace

RgbImage decode_jpeg(std::span<const uint8_t> file, const std::string& name,
                     const DecodeOptions& options) {
  return JpegDecoder(file, name).decode(options);
}

}  // namespace lockstep::formats
