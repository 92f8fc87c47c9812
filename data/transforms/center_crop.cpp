// Transform "center_crop": torchvision's CenterCrop; images that are too small are padded black.
#include <cmath>

#include "data/images/resample.h"
#include "lockstep/error.h"
#include "lockstep/image_transform.h"

namespace lockstep::data {
namespace {

struct CenterCropConfig {
  std::vector<int64_t> size;
};

template <class V>
void fields(V& v, CenterCropConfig& c) {
  v("size", c.size, "[side] or [height, width]", required(), at_least(1), at_most(16384));
}

// Where a crop of `wanted` pixels begins: half of the excess, with halves rounded to even as in
// Python; if the image is too small, the smaller half of the padding comes first.
int crop_begin(int available, int wanted) {
  if (available < wanted) return -((wanted - available) / 2);
  return static_cast<int>(std::nearbyint((available - wanted) / 2.0));
}

class CenterCrop final : public ImageTransform {
 public:
  using Config = CenterCropConfig;
  explicit CenterCrop(const Config& config)
      : size_(size_from(config.size, "transform center_crop")) {}

  std::optional<ImageSize> size_after(std::optional<ImageSize>) const override { return size_; }

  void apply(RgbImage& image, SampleRandom&) const override {
    image = cropped(image, {crop_begin(image.size.width, size_.width),
                            crop_begin(image.size.height, size_.height), size_});
  }

 private:
  ImageSize size_;
};

REGISTER_IMAGE_TRANSFORM("center_crop", CenterCrop, "crops the center of the image");

}  // namespace
}  // namespace lockstep::data
