// Images of a dataset: from an encoded file in memory to the values of a field, by the transforms of
// the run file.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/images/decode.h"
#include "lockstep/image_transform.h"
#include "lockstep/part.h"

namespace lockstep::data {

// The keys of a dataset of images.
struct ImageConfig {
  PartList<ImageTransform> transforms{image_transform_registry()};
  bool scaled_decoding = false;
  bool exif_orientation = false;
  int64_t max_pixels = 100'000'000;
};

template <class V>
void fields(V& v, ImageConfig& c) {
  v("transforms", c.transforms,
    "transforms of an image, in order; all results must have the same size");
  v("scaled_decoding", c.scaled_decoding,
    "decode large JPEG files at 1/2, 1/4 or 1/8 of their size if the first transform reduces them "
    "that far: faster, with slightly different pixels");
  v("exif_orientation", c.exif_orientation,
    "rotate images according to their EXIF data; false: as stored, like torchvision");
  v("max_pixels", c.max_pixels, "larger images are errors", at_least(1));
}

// Thread: const functions are safe to call from several threads concurrently.
class ImagePipeline {
 public:
  // Throws Config: the resulting images would differ in size, or a transform follows normalize.
  explicit ImagePipeline(const ImageConfig& config);

  // Of an image: [3, height, width].
  std::vector<int64_t> shape() const { return {3, size_.height, size_.width}; }
  size_t num_values() const { return size_t{3} * size_.height * size_.width; }

  // Decodes a file, applies the transforms, and writes the channels one after the other to `out`
  // [num_values()]: pixel / 255, normalized if configured. Throws Config like decode_image(), with
  // `name`.
  void load(std::span<const uint8_t> file, const std::string& name, SampleRandom random,
            float* out) const;

 private:
  std::vector<std::shared_ptr<ImageTransform>> transforms_;
  formats::DecodeOptions options_;
  ImageSize size_;
  std::array<std::array<float, 256>, 3> values_;  // of each byte, in each channel
};

}  // namespace lockstep::data
