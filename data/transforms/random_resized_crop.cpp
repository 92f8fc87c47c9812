// Transform "random_resized_crop": torchvision's RandomResizedCrop: a part of random area and
// proportions, scaled to one size.
#include <cmath>

#include "data/images/resample.h"
#include "lockstep/error.h"
#include "lockstep/image_transform.h"

namespace lockstep::data {
namespace {

constexpr int kAttempts = 10;

struct RandomResizedCropConfig {
  std::vector<int64_t> size;
  std::vector<double> scale = {0.08, 1.0};
  std::vector<double> ratio = {0.75, 4.0 / 3.0};
};

template <class V>
void fields(V& v, RandomResizedCropConfig& c) {
  v("size", c.size, "output size: [side] or [height, width]", required(), at_least(1),
    at_most(16384));
  v("scale", c.scale, "[min, max] area of the crop, as a fraction of the image", above(0),
    at_most(1));
  v("ratio", c.ratio, "[min, max] aspect ratio (width / height) of the crop", above(0));
}

std::array<double, 2> least_and_most(const std::vector<double>& values, const char* what) {
  if (values.size() != 2 || values[0] > values[1])
    throw config_error(std::string("transform random_resized_crop: ") + what + " takes [min, max]");
  return {values[0], values[1]};
}

class RandomResizedCrop final : public ImageTransform {
 public:
  using Config = RandomResizedCropConfig;
  explicit RandomResizedCrop(const Config& config)
      : size_(size_from(config.size, "transform random_resized_crop")),
        scale_(least_and_most(config.scale, "scale")),
        ratio_(least_and_most(config.ratio, "ratio")) {}

  std::optional<ImageSize> size_after(std::optional<ImageSize>) const override { return size_; }

  std::optional<ImageNeed> need(ImageSize original, SampleRandom random) const override {
    return ImageNeed{.box = choose(original, random), .size = size_};
  }

  void apply(RgbImage& image, SampleRandom& random) const override {
    image = resampled(cropped(image, decoded_part(image, choose(image.original, random))), size_);
  }

 private:
  ImageBox choose(ImageSize image, SampleRandom& random) const {
    const double area = static_cast<double>(image.height) * image.width;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const double target = area * random.uniform(scale_[0], scale_[1]);
      const double ratio = std::exp(random.uniform(std::log(ratio_[0]), std::log(ratio_[1])));
      const auto width = static_cast<int>(std::nearbyint(std::sqrt(target * ratio)));
      const auto height = static_cast<int>(std::nearbyint(std::sqrt(target / ratio)));
      if (width <= 0 || width > image.width || height <= 0 || height > image.height) continue;
      const auto top =
          static_cast<int>(random.below(static_cast<uint32_t>(image.height - height) + 1));
      const auto left =
          static_cast<int>(random.below(static_cast<uint32_t>(image.width - width) + 1));
      return {left, top, {height, width}};
    }
    return middle(image);
  }

  // The largest centered box with an allowed aspect ratio.
  ImageBox middle(ImageSize image) const {
    auto size = image;
    const double ratio = static_cast<double>(image.width) / image.height;
    if (ratio < ratio_[0])
      size.height = std::max(1, static_cast<int>(std::nearbyint(image.width / ratio_[0])));
    else if (ratio > ratio_[1])
      size.width = std::max(1, static_cast<int>(std::nearbyint(image.height * ratio_[1])));
    return {(image.width - size.width) / 2, (image.height - size.height) / 2, size};
  }

  // Maps `box` from the original image to the decoded pixels.
  static ImageBox decoded_part(const RgbImage& image, const ImageBox& box) {
    const auto& covered = image.covered;
    const double x = static_cast<double>(image.size.width) / covered.size.width;
    const double y = static_cast<double>(image.size.height) / covered.size.height;
    const auto pixels = [](double value) { return static_cast<int>(std::lround(value)); };
    const int left = pixels((box.left - covered.left) * x);
    const int top = pixels((box.top - covered.top) * y);
    const int right = pixels((box.left + box.size.width - covered.left) * x);
    const int bottom = pixels((box.top + box.size.height - covered.top) * y);
    return {left, top, {std::max(1, bottom - top), std::max(1, right - left)}};
  }

  ImageSize size_;
  std::array<double, 2> scale_, ratio_;
};

REGISTER_IMAGE_TRANSFORM("random_resized_crop", RandomResizedCrop,
                         "crops a random part of the image and scales it to a fixed size");

}  // namespace
}  // namespace lockstep::data
