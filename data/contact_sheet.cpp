#include "data/contact_sheet.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep::data {
namespace {

constexpr int kGap = 2;  // black pixels between images

at::Tensor as_bytes(const at::Tensor& images) {
  auto values = images.to(at::kCPU, at::kFloat);
  const auto least = values.min().item<float>(), most = values.max().item<float>();
  if (least < 0 || most > 1) values = (values - least) / std::max(most - least, 1e-12f);
  return values.mul(255)
      .round()
      .to(at::kByte)
      .expand({-1, 3, -1, -1})
      .permute({0, 2, 3, 1})
      .contiguous();
}

}  // namespace

RgbImage contact_sheet(const at::Tensor& images, int columns) {
  if (images.dim() != 4 || images.size(0) == 0 || (images.size(1) != 1 && images.size(1) != 3))
    throw config_error(fmt::format(
        "a contact sheet shows fields of shape [samples, 1 or 3, height, width]; this one has {} "
        "dimensions",
        images.dim()));
  const auto bytes = as_bytes(images);
  const auto count = static_cast<int>(bytes.size(0));
  const auto height = static_cast<int>(bytes.size(1)), width = static_cast<int>(bytes.size(2));
  columns = std::clamp(columns, 1, count);
  const int rows = (count + columns - 1) / columns;
  auto sheet = make_image({rows * (height + kGap) - kGap, columns * (width + kGap) - kGap});
  const auto* source = bytes.const_data_ptr<uint8_t>();
  for (int i = 0; i < count; ++i)
    for (int y = 0; y < height; ++y, source += 3 * width)
      std::copy_n(
          source, 3 * width,
          sheet.row(i / columns * (height + kGap) + y) + 3 * (i % columns) * (width + kGap));
  return sheet;
}

}  // namespace lockstep::data
