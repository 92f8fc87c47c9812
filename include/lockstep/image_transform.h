// The interface of image transforms, which run after decoding and before batching. Names,
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

// Thread: const methods must be safe to call from several threads concurrently. `random` must be
// the only source of randomness.
class ImageTransform {
 public:
  virtual ~ImageTransform() = default;

  // Transforms `image` in place. The first transform receives the part of the image that need()
  // returned, each later one the output of the previous transform.
  virtual void apply(RgbImage& image, SampleRandom& random) const = 0;

  // The output size for a given input size; nullopt: sizes vary.
  virtual std::optional<ImageSize> size_after(std::optional<ImageSize> before) const {
    return before;
  }

  // Called for the first transform of a list. Returns the part of an image of that size that
  // apply() uses with the same random numbers; nullopt: the whole image at full resolution.
  virtual std::optional<ImageNeed> need(ImageSize original, SampleRandom random) const {
    (void)original, (void)random;
    return std::nullopt;
  }

  // How pixels are converted to numbers. Only the last transform of a list may return a value.
  virtual std::optional<Normalization> normalization() const { return std::nullopt; }
};

using ImageTransformRegistry = Registry<ImageTransform>;
ImageTransformRegistry& image_transform_registry();

// Converts [side] or [height, width] of a run file to a size. Throws Config, naming `where`, for
// other lengths.
ImageSize size_from(const std::vector<int64_t>& numbers, const char* where);

}  // namespace lockstep

// Registers an image transform. Use at namespace scope. `type`: an ImageTransform with a member
// type Config and a constructor from it.
#define REGISTER_IMAGE_TRANSFORM(name, type, help)                    \
  static const ::lockstep::Registration<type> registration_of_##type( \
      ::lockstep::image_transform_registry(), name, help)
