// Transform "random_horizontal_flip": torchvision's RandomHorizontalFlip.
#include <algorithm>

#include "lockstep/image_transform.h"

namespace lockstep::data {
namespace {

struct RandomHorizontalFlipConfig {
  double p = 0.5;
};

template <class V>
void fields(V& v, RandomHorizontalFlipConfig& c) {
  v("p", c.p, "probability of mirroring an image", at_least(0), at_most(1));
}

class RandomHorizontalFlip final : public ImageTransform {
 public:
  using Config = RandomHorizontalFlipConfig;
  explicit RandomHorizontalFlip(const Config& config) : p_(config.p) {}

  void apply(RgbImage& image, SampleRandom& random) const override {
    if (random.uniform() >= p_) return;
    for (int y = 0; y < image.size.height; ++y) {
      auto* left = image.row(y);
      for (auto* right = left + 3 * (image.size.width - 1); left < right; left += 3, right -= 3)
        std::swap_ranges(left, left + 3, right);
    }
  }

 private:
  double p_;
};

REGISTER_IMAGE_TRANSFORM("random_horizontal_flip", RandomHorizontalFlip,
                         "mirrors images horizontally with probability p");

}  // namespace
}  // namespace lockstep::data
