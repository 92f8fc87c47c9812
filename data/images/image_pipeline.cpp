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
namespace {

// The result for each of the 256 byte values in each channel, computed as in Python, with the same
// bits.
std::array<std::array<float, 256>, 3> value_tables(const Normalization& normalization) {
  std::array<std::array<float, 256>, 3> tables{};
  for (size_t channel = 0; channel < tables.size(); ++channel)
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto value = static_cast<float>(byte) / 255.0f;
      tables[channel][byte] = (value - static_cast<float>(normalization.mean[channel])) /
                              static_cast<float>(normalization.std[channel]);
    }
  return tables;
}

}  // namespace

ImagePipeline::ImagePipeline(const ImageConfig& config)
    : options_{.max_pixels = config.max_pixels,
               .exif_orientation = config.exif_orientation,
               .scaled = config.scaled_decoding,
               .need = {}} {
  std::optional<ImageSize> size;
  Normalization normalization;
  const ImageTransform* last = nullptr;
  for (const auto& part : config.transforms.parts()) {
    if (last && last->normalization())
      throw config_error(
          fmt::format("transforms: {} follows normalize, which must be the last", part.name()));
    last = transforms_.emplace_back(part.build()).get();
    size = last->size_after(size);
    if (const auto given = last->normalization()) normalization = *given;
  }
  if (!size)
    throw config_error(
        "transforms: images would not all have the same size: use center_crop, "
        "random_resized_crop, random_crop or resize with [height, width]");
  size_ = *size;
  values_ = value_tables(normalization);
}

void ImagePipeline::load(std::span<const uint8_t> file, const std::string& name,
                         SampleRandom random, float* out) const {
  auto options = options_;
  if (!transforms_.empty())
    options.need = [&](ImageSize original) { return transforms_.front()->need(original, random); };
  auto image = decode_image(file, name, options);
  for (const auto& transform : transforms_) transform->apply(image, random);
  check(image.size == size_, "the size of a transformed image differs from size_after()");
  const auto count = num_values() / 3;
  for (size_t channel = 0; channel < 3; ++channel) {
    const auto& table = values_[channel];
    const auto* source = image.rgb.data() + channel;
    for (size_t i = 0; i < count; ++i) *out++ = table[source[3 * i]];
  }
}

}  // namespace lockstep::data
