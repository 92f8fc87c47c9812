// Transform "center_crop": torchvision's CenterCrop; an image that is too small gets black edges.
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

// Where a crop of `wanted` pixels begins: half of what is left over, halves to even as Python
// rounds; of what is missing, the smaller half lies before the image.
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

REGISTER_IMAGE_TRANSFORM("center_crop", CenterCrop, "the middle of the image");

}  // namespace
}  // namespace lockstep::data
