#include "data/images/image_pipeline.h"

#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep {

ImageTransformRegistry& image_transform_registry() {
  static ImageTransformRegistry registry("image transform");
  return registry;
}

ImageSize size_from(const std::vector<int64_t>& numbers, const char* where) {
  if (numbers.size() != 1 && numbers.size() != 2)
    throw config_error(fmt::format("{}: expected size [side] or [height, width], got {} numbers",
                                   where, numbers.size()));
  return {static_cast<int>(numbers.front()), static_cast<int>(numbers.back())};
}

}  // namespace lockstep

namespace lockstep::data {

ImagePipeline::ImagePipeline(const PartList<ImageTransform>& parts) {
  std::optional<ImageSize> size;
  const ImageTransform* last = nullptr;
  for (const auto& part : parts.parts()) {
    if (last && last->normalization())
      throw config_error(
          fmt::format("transforms: {} follows normalize, which must be the last", part.name()));
    last = transforms_.emplace_back(part.build()).get();
    size = last->size_after(size);
    if (const auto normalization = last->normalization()) normalization_ = *normalization;
  }
  if (!size)
    throw config_error(
        "transforms: images would not all have the same size: use center_crop, "
        "random_resized_crop, random_crop or resize with [height, width]");
  size_ = *size;
}

RgbImage ImagePipeline::load(std::span<const uint8_t> file, const std::string& name,
                             formats::DecodeOptions options, SampleRandom random) const {
  if (!transforms_.empty())
    options.need = [&](ImageSize original) { return transforms_.front()->need(original, random); };
  auto image = decode_image(file, name, options);
  for (const auto& transform : transforms_) transform->apply(image, random);
  check(image.size == size_, "the size of a transformed image differs from size_after()");
  return image;
}

}  // namespace lockstep::data
