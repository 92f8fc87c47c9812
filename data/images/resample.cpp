// Method of PIL (Pillow, src/libImaging/Resample.c): each pixel is a weighted sum over a triangle
// that is as wide as the scale, first along rows, then along columns, rounded to 8 bits after each;
// weights in fixed point.
#include "data/images/resample.h"

#include <algorithm>
#include <cmath>

namespace lockstep::data {
namespace {

constexpr int kPrecision = 32 - 8 - 2;  // fractional bits of a weight
constexpr int32_t kHalf = 1 << (kPrecision - 1);

// For each output pixel along one axis: the start of its input and the weights.
struct Weights {
  int taps = 0;  // at most, per pixel
  std::vector<int> first, count;
  std::vector<int32_t> values;  // taps for each pixel

  const int32_t* of(int pixel) const { return values.data() + size_t{1} * taps * pixel; }
};

Weights triangle_weights(int input, int output) {
  const double scale = static_cast<double>(input) / output;
  const double support = std::max(scale, 1.0);
  Weights weights;
  weights.taps = static_cast<int>(std::ceil(support)) * 2 + 1;
  weights.values.resize(size_t{1} * weights.taps * output);
  std::vector<double> row(weights.taps);
  for (int pixel = 0; pixel < output; ++pixel) {
    const double center = (pixel + 0.5) * scale;
    const int first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int count = std::min(static_cast<int>(center + support + 0.5), input) - first;
    double sum = 0;
    for (int i = 0; i < count; ++i) {
      const double distance = std::abs((i + first - center + 0.5) / support);
      row[i] = distance < 1 ? 1 - distance : 0;
      sum += row[i];
    }
    auto* fixed = weights.values.data() + size_t{1} * weights.taps * pixel;
    for (int i = 0; i < count; ++i)
      fixed[i] = static_cast<int32_t>((sum == 0 ? row[i] : row[i] / sum) * (1 << kPrecision) + 0.5);
    weights.first.push_back(first);
    weights.count.push_back(count);
  }
  return weights;
}

uint8_t to_byte(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kPrecision, 0, 255)); }

// Two versions; the CPU selects one at program start.
#define LOCKSTEP_WIDE_VECTORS __attribute__((target_clones("avx2", "default")))

void scale_row(const uint8_t* in, const Weights& weights, int width, uint8_t* out) {
  for (int x = 0; x < width; ++x) {
    const auto* weight = weights.of(x);
    const auto* pixel = in + 3 * weights.first[x];
    int32_t red = kHalf, green = kHalf, blue = kHalf;
    for (int i = 0; i < weights.count[x]; ++i, pixel += 3) {
      red += pixel[0] * weight[i];
      green += pixel[1] * weight[i];
      blue += pixel[2] * weight[i];
    }
    *out++ = to_byte(red);
    *out++ = to_byte(green);
    *out++ = to_byte(blue);
  }
}

LOCKSTEP_WIDE_VECTORS
void add_row(const uint8_t* __restrict in, int32_t weight, int32_t* __restrict sums, int count) {
  for (int i = 0; i < count; ++i) sums[i] += in[i] * weight;
}

LOCKSTEP_WIDE_VECTORS
void round_row(const int32_t* __restrict sums, uint8_t* __restrict out, int count) {
  for (int i = 0; i < count; ++i)
    out[i] = static_cast<uint8_t>(std::min(std::max(sums[i] >> kPrecision, 0), 255));
}

#undef LOCKSTEP_WIDE_VECTORS

RgbImage scale_rows(const RgbImage& image, int width) {
  auto result = make_image({image.size.height, width});
  const auto weights = triangle_weights(image.size.width, width);
  for (int y = 0; y < image.size.height; ++y)
    scale_row(image.row(y), weights, width, result.row(y));
  return result;
}

RgbImage scale_columns(const RgbImage& image, int height) {
  auto result = make_image({height, image.size.width});
  const auto weights = triangle_weights(image.size.height, height);
  std::vector<int32_t> sums(size_t{3} * image.size.width);
  const int count = 3 * image.size.width;
  for (int y = 0; y < height; ++y) {
    std::ranges::fill(sums, kHalf);
    for (int i = 0; i < weights.count[y]; ++i)
      add_row(image.row(weights.first[y] + i), weights.of(y)[i], sums.data(), count);
    round_row(sums.data(), result.row(y), count);
  }
  return result;
}

}  // namespace

RgbImage resampled(const RgbImage& image, ImageSize size) {
  if (size == image.size) return cropped(image, {0, 0, size});
  if (size.width == image.size.width) return scale_columns(image, size.height);
  auto rows = scale_rows(image, size.width);
  return size.height == image.size.height ? rows : scale_columns(rows, size.height);
}

RgbImage cropped(const RgbImage& image, const ImageBox& box) {
  auto result = make_image(box.size);
  const int begin = std::max(box.left, 0);
  const int end = std::min(box.left + box.size.width, image.size.width);
  for (int y = 0; y < box.size.height; ++y) {
    const int line = box.top + y;
    if (line < 0 || line >= image.size.height || begin >= end) continue;
    std::copy(image.row(line) + 3 * begin, image.row(line) + 3 * end,
              result.row(y) + 3 * (begin - box.left));
  }
  return result;
}

}  // namespace lockstep::data
