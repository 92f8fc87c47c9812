// The interface of image transforms, which run between decoding a file and the batch. Names,
// parameters and order are those of torchvision's transforms; the conversion to a tensor follows
// the last one.
//
// Example:
//   struct InvertConfig {};
//   template <class V>
//   void fields(V&, InvertConfig&) {}
//
//   struct Invert final : lockstep::ImageTransform {
//     using Config = InvertConfig;
//     explicit Invert(const Config&) {}
//     void apply(lockstep::RgbImage& image, lockstep::SampleRandom&) const override {
//       for (auto& value : image.rgb) value = static_cast<uint8_t>(255 - value);
//     }
//   };
//   REGISTER_IMAGE_TRANSFORM("invert", Invert, "negative of the image");
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "lockstep/image.h"
#include "lockstep/registry.h"
#include "lockstep/sample_random.h"

namespace lockstep {

// Per channel: (pixel / 255 - mean) / std.
struct Normalization {
  std::array<double, 3> mean{0, 0, 0}, std{1, 1, 1};
};

// Thread: const and safe to call from several threads at once. `random` is the only source of
// randomness.
class ImageTransform {
 public:
  virtual ~ImageTransform() = default;

  // Changes `image` in place. The first transform gets the part of the image that need() returned,
  // each later one what the one before it made.
  virtual void apply(RgbImage& image, SampleRandom& random) const = 0;

  // The size of the result, given that of the input; nullopt: images differ in size.
  virtual std::optional<ImageSize> size_after(std::optional<ImageSize> before) const {
    return before;
  }

  // For the first of a list: the part of an image of that size that apply() uses with the same
  // random numbers. nullopt: all of it, in full size.
  virtual std::optional<ImageNeed> need(ImageSize original, SampleRandom random) const {
    (void)original, (void)random;
    return std::nullopt;
  }

  // How the final pixels become numbers. Only the last of a list may return one.
  virtual std::optional<Normalization> normalization() const { return std::nullopt; }
};

using ImageTransformRegistry = Registry<ImageTransform>;
ImageTransformRegistry& image_transform_registry();

// [side] or [height, width] of a run file as a size. Throws Config, with `where`, for other
// lengths.
ImageSize size_from(const std::vector<int64_t>& numbers, const char* where);

}  // namespace lockstep

// At namespace scope, once per transform. `type`: an ImageTransform with a Config and a constructor
// from it.
#define REGISTER_IMAGE_TRANSFORM(name, type, help)                    \
  static const ::lockstep::Registration<type> registration_of_##type( \
      ::lockstep::image_transform_registry(), name, help)
