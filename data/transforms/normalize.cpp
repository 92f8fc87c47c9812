// Transform "normalize": torchvision's Normalize, applied to the numbers from 0 to 1.
#include <fmt/format.h>

#include "lockstep/error.h"
#include "lockstep/image_transform.h"

namespace lockstep::data {
namespace {

struct NormalizeConfig {
  std::vector<double> mean = {0.485, 0.456, 0.406};
  std::vector<double> std = {0.229, 0.224, 0.225};
};

template <class V>
void fields(V& v, NormalizeConfig& c) {
  v("mean", c.mean, "subtracted from red, green and blue");
  v("std", c.std, "divisor after the subtraction", above(0));
}

class Normalize final : public ImageTransform {
 public:
  using Config = NormalizeConfig;
  explicit Normalize(const Config& config) {
    if (config.mean.size() != 3 || config.std.size() != 3)
      throw config_error(
          fmt::format("transform normalize: mean and std take 3 numbers each, got {} and {}",
                      config.mean.size(), config.std.size()));
    std::copy_n(config.mean.begin(), 3, normalization_.mean.begin());
    std::copy_n(config.std.begin(), 3, normalization_.std.begin());
  }

  void apply(RgbImage&, SampleRandom&) const override {}
  std::optional<Normalization> normalization() const override { return normalization_; }

 private:
  Normalization normalization_;
};

REGISTER_IMAGE_TRANSFORM("normalize", Normalize,
                         "normalizes each channel: (pixel - mean) / std; must be last");

}  // namespace
}  // namespace lockstep::data
