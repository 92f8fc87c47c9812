// Transform "random_crop": torchvision's RandomCrop(size, padding), black outside.
#include <fmt/format.h>

#include "data/images/resample.h"
#include "lockstep/error.h"
#include "lockstep/image_transform.h"

namespace lockstep::data {
namespace {

struct RandomCropConfig {
  std::vector<int64_t> size;
  int64_t padding = 0;
};

template <class V>
void fields(V& v, RandomCropConfig& c) {
  v("size", c.size, "[side] or [height, width]", required(), at_least(1), at_most(16384));
  v("padding", c.padding, "black pixels around the image before it is cropped", at_least(0),
    at_most(4096));
}

class RandomCrop final : public ImageTransform {
 public:
  using Config = RandomCropConfig;
  explicit RandomCrop(const Config& config)
      : size_(size_from(config.size, "transform random_crop")),
        padding_(static_cast<int>(config.padding)) {}

  std::optional<ImageSize> size_after(std::optional<ImageSize>) const override { return size_; }

  void apply(RgbImage& image, SampleRandom& random) const override {
    const int spare_x = image.size.width + 2 * padding_ - size_.width;
    const int spare_y = image.size.height + 2 * padding_ - size_.height;
    if (spare_x < 0 || spare_y < 0)
      throw config_error(fmt::format(
          "transform random_crop: an image of {} x {} pixels with a padding of {} is smaller than "
          "{} x {}",
          image.size.width, image.size.height, padding_, size_.width, size_.height));
    const auto top = static_cast<int>(random.below(static_cast<uint32_t>(spare_y) + 1));
    const auto left = static_cast<int>(random.below(static_cast<uint32_t>(spare_x) + 1));
    image = cropped(image, {left - padding_, top - padding_, size_});
  }

 private:
  ImageSize size_;
  int padding_;
};

REGISTER_IMAGE_TRANSFORM("random_crop", RandomCrop, "crops the image at a random position");

}  // namespace
}  // namespace lockstep::data
