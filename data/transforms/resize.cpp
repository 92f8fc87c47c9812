// Transform "resize": torchvision's Resize on PIL images (bilinear, antialiased), bit-identical.
#include "data/images/resample.h"
#include "lockstep/error.h"
#include "lockstep/image_transform.h"

namespace lockstep::data {
namespace {

struct ResizeConfig {
  std::vector<int64_t> size;
};

template <class V>
void fields(V& v, ResizeConfig& c) {
  v("size", c.size, "[side]: of the shorter edge, keeping the aspect ratio; or [height, width]",
    required(), at_least(1), at_most(16384));
}

class Resize final : public ImageTransform {
 public:
  using Config = ResizeConfig;
  explicit Resize(const Config& config)
      : size_(size_from(config.size, "transform resize")), fixed_(config.size.size() == 2) {}

  std::optional<ImageSize> size_after(std::optional<ImageSize> before) const override {
    if (fixed_) return size_;
    return before ? std::optional(scaled(*before)) : std::nullopt;
  }

  std::optional<ImageNeed> need(ImageSize original, SampleRandom) const override {
    return ImageNeed{.box = {0, 0, original}, .size = target(original)};
  }

  void apply(RgbImage& image, SampleRandom&) const override {
    image = resampled(image, target(image.original));
  }

 private:
  ImageSize target(ImageSize input) const { return fixed_ ? size_ : scaled(input); }

  ImageSize scaled(ImageSize input) const {
    const int64_t side = size_.width;
    const auto longer = [&](int64_t a, int64_t b) {
      return static_cast<int>(std::max<int64_t>(1, side * a / b));
    };
    return input.width <= input.height ? ImageSize{longer(input.height, input.width), size_.width}
                                       : ImageSize{size_.height, longer(input.width, input.height)};
  }

  ImageSize size_;
  bool fixed_;
};

REGISTER_IMAGE_TRANSFORM("resize", Resize, "scales the image");

}  // namespace
}  // namespace lockstep::data
