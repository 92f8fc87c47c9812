// The image transforms of a run file, in order: from an encoded file in memory to pixels of one
// size.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/images/decode.h"
#include "lockstep/image_transform.h"
#include "lockstep/part.h"

namespace lockstep::data {

class ImagePipeline {
 public:
  // Throws Config: the resulting images would differ in size, or a transform follows normalize.
  explicit ImagePipeline(const PartList<ImageTransform>& parts);

  ImageSize size() const { return size_; }
  const Normalization& normalization() const { return normalization_; }

  // Decodes a file and applies the transforms; the result has size(). Throws Config like
  // decode_image().
  RgbImage load(std::span<const uint8_t> file, const std::string& name,
                formats::DecodeOptions options, SampleRandom random) const;

 private:
  std::vector<std::shared_ptr<ImageTransform>> transforms_;
  ImageSize size_;
  Normalization normalization_;
};

}  // namespace lockstep::data
