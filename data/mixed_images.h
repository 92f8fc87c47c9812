// Mixes each training image with another one: mixup (Zhang et al., 2018) and cutmix (Yun et al.,
// 2019). The loss is then a mixture of those of both labels.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config_fields.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

struct MixConfig {
  std::optional<double> mixup, cutmix;
  double probability = 1;

  bool is_on() const { return mixup || cutmix; }
};

template <class V>
void fields(V& v, MixConfig& c) {
  v("mixup", c.mixup,
    "the share of an image in its sum with another one is drawn from Beta(this, this), e.g. 0.2 "
    "(empty: off)",
    above(0), at_most(1000));
  v("cutmix", c.cutmix,
    "a rectangle of an image is replaced by that of another one; the share that stays is drawn "
    "from "
    "Beta(this, this), e.g. 1.0 (empty: off); with mixup, each image has one of both",
    above(0), at_most(1000));
  v("probability", c.probability, "share of the images that are mixed", above(0), at_most(1),
    needs("data.mix.mixup", "data.mix.cutmix"));
}

// Adds the fields "mixed_label" int64 [B], the label of the other image, and "mix" float [B], the
// share of the image itself; both are functions of seed, epoch and sample. An image whose other one
// cannot be loaded stays as it is, with share 1.
class MixedImages final : public Dataset {
 public:
  // Throws Config if `data` has no images float [C, H, W] with labels int64.
  MixedImages(std::shared_ptr<const Dataset> data, const MixConfig& config);

  int64_t size() const override { return data_->size(); }
  SampleInfo sample_info() const override { return data_->sample_info(); }
  std::vector<FieldLayout> layout() const override;
  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override;
  Json metadata() const override { return data_->metadata(); }
  std::vector<std::string> warnings() const override { return data_->warnings(); }

 private:
  struct OtherImage {
    at::Tensor image;
    int64_t label = 0;
  };
  std::vector<std::optional<OtherImage>> load_others(const SampleRequest& request) const;

  std::shared_ptr<const Dataset> data_;
  MixConfig config_;
  size_t image_ = 0, label_ = 0;  // the numbers of these fields
};

}  // namespace lockstep::data
