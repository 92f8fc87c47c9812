// WebP decoder based on libwebp's animation decoder, which PIL uses for all WebP files. Only the
// first frame of an animation is decoded.
#include <fmt/format.h>
#include <webp/demux.h>

#include <memory>

#include "formats/images/decode.h"
#include "formats/images/orientation.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

struct FreedAnimation {
  void operator()(WebPAnimDecoder* decoder) const { WebPAnimDecoderDelete(decoder); }
};

struct FreedDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

int orientation_in(const WebPDemuxer* demuxer) {
  WebPChunkIterator chunk;
  const bool is_there = WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk) != 0;
  const auto orientation = is_there ? exif_orientation({chunk.chunk.bytes, chunk.chunk.size}) : 1;
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

}  // namespace

RgbImage decode_webp(std::span<const uint8_t> file, const std::string& name,
                     const DecodeOptions& options) {
  const auto failed = [&](const char* why) {
    return config_error(fmt::format("{}: corrupt WebP: {}", name, why));
  };
  const WebPData data{file.data(), file.size()};
  const std::unique_ptr<WebPDemuxer, FreedDemuxer> demuxer(WebPDemux(&data));
  if (!demuxer) throw failed("chunks are truncated or inconsistent");
  const auto width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  const auto height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  if (uint64_t{width} * height > static_cast<uint64_t>(options.max_pixels))
    throw config_error(fmt::format("{}: {} x {} pixels are more than the limit of {}", name, width,
                                   height, options.max_pixels));
  WebPAnimDecoderOptions choice;
  if (!WebPAnimDecoderOptionsInit(&choice)) throw failed("libwebp version mismatch");
  choice.color_mode = MODE_RGBA;
  const std::unique_ptr<WebPAnimDecoder, FreedAnimation> decoder(
      WebPAnimDecoderNew(&data, &choice));
  uint8_t* rgba = nullptr;
  int timestamp = 0;
  if (!decoder || !WebPAnimDecoderGetNext(decoder.get(), &rgba, &timestamp))
    throw failed("cannot decode the pixels");
  auto image = make_image({static_cast<int>(height), static_cast<int>(width)});
  const auto count = size_t{width} * height;
  for (size_t i = 0; i < count; ++i)
    for (size_t c = 0; c < 3; ++c) image.rgb[3 * i + c] = rgba[4 * i + c];
  const auto turn = options.exif_orientation ? orientation_in(demuxer.get()) : 1;
  return turn == 1 ? std::move(image) : turned(image, turn);
}

}  // namespace lockstep::formats
