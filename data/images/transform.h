// What happens to an image between its file and a batch: a list of parts, named, parametrised and
// ordered as torchvision's transforms, without ToTensor, which is always the end.
#pragma once

#include <array>
#include <optional>

#include "core/config/part_list.h"
#include "data/random.h"
#include "formats/images/decode.h"
#include "formats/images/image.h"

namespace lockstep {

// Per channel: (pixel / 255 - mean) / std.
struct Normalization {
  std::array<double, 3> mean{0, 0, 0}, std{1, 1, 1};
};

// Thread: const and safe to call from several threads at once. What is random is drawn from
// `random` and from nothing else.
class ImageTransform {
 public:
  virtual ~ImageTransform() = default;

  // Requires the image to cover all of what the transforms before made; the first one gets what
  // need() asked for.
  virtual void apply(RgbImage& image, SampleRandom& random) const = 0;

  // The size of the result where all have the same, from that of the input where all of those have.
  virtual std::optional<ImageSize> size_after(std::optional<ImageSize> before) const {
    return before;
  }

  // For the first of a list: what of an image of that size apply() will use, given the same
  // numbers. Empty: all of it, in full size.
  virtual std::optional<ImageNeed> need(ImageSize original, SampleRandom random) const {
    (void)original, (void)random;
    return std::nullopt;
  }

  // How the final pixels become numbers. Only the last of a list may have one.
  virtual std::optional<Normalization> normalization() const { return std::nullopt; }
};

using ImageTransformRegistry = Registry<ImageTransform>;
ImageTransformRegistry& image_transform_registry();

// A list, ready to use.
class ImagePipeline {
 public:
  // Throws Config: the images would differ in size at the end, or something follows a
  // normalisation.
  explicit ImagePipeline(const PartList<ImageTransform>& parts);

  ImageSize size() const { return size_; }
  const Normalization& normalization() const { return normalization_; }

  // Decodes a file and applies the transforms; the result has size(). Throws Config as
  // decode_image().
  RgbImage load(std::span<const uint8_t> file, const std::string& name, DecodeOptions options,
                SampleRandom random) const;

 private:
  std::vector<std::shared_ptr<ImageTransform>> transforms_;
  ImageSize size_;
  Normalization normalization_;
};

// One or two numbers of a run file, [side] or [height, width], as a size. Throws Config, naming
// `where`.
ImageSize size_from(const std::vector<int64_t>& numbers, const char* where);

}  // namespace lockstep

#define REGISTER_IMAGE_TRANSFORM(name, type, help)                    \
  static const ::lockstep::Registration<type> registration_of_##type( \
      ::lockstep::image_transform_registry(), name, help)
