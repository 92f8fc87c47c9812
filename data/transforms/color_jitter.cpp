// Transform "color_jitter": torchvision's ColorJitter on PIL images: brightness, contrast,
// saturation and hue in a random order, each with PIL's arithmetic in 8 bits.
#include <algorithm>
#include <cmath>

#include "lockstep/image_transform.h"

namespace lockstep::data {
namespace {

struct ColorJitterConfig {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};

template <class V>
void fields(V& v, ColorJitterConfig& c) {
  v("brightness", c.brightness, "random factor from max(0, 1 - this) to 1 + this", at_least(0));
  v("contrast", c.contrast, "random factor from max(0, 1 - this) to 1 + this", at_least(0));
  v("saturation", c.saturation, "random factor from max(0, 1 - this) to 1 + this", at_least(0));
  v("hue", c.hue, "random shift from -this to this, 1 being a full turn", at_least(0),
    at_most(0.5));
}

uint8_t gray_of(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

// Interpolates from `from` (factor 0) to `to` (factor 1); extrapolates beyond.
uint8_t blend(int from, int to, float factor) {
  const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

void change_brightness(RgbImage& image, float factor) {
  for (auto& value : image.rgb) value = blend(0, value, factor);
}

void change_contrast(RgbImage& image, float factor) {
  double sum = 0;
  for (size_t i = 0; i < image.rgb.size(); i += 3) sum += gray_of(&image.rgb[i]);
  const auto mean = static_cast<int>(sum / (static_cast<double>(image.rgb.size()) / 3) + 0.5);
  for (auto& value : image.rgb) value = blend(mean, value, factor);
}

void change_saturation(RgbImage& image, float factor) {
  for (size_t i = 0; i < image.rgb.size(); i += 3) {
    const auto gray = gray_of(&image.rgb[i]);
    for (size_t c = i; c < i + 3; ++c) image.rgb[c] = blend(gray, image.rgb[c], factor);
  }
}

// Hue and saturation in 256 steps each, as in PIL's HSV mode; value is the largest channel.
void turn_pixel(uint8_t* rgb, uint8_t turn) {
  const int red = rgb[0], green = rgb[1], blue = rgb[2];
  const int most = std::max({red, green, blue}), least = std::min({red, green, blue});
  if (most == least) return;
  // The types below (float or double) decide how values are rounded, as in PIL.
  const auto range = static_cast<float>(most - least);
  const float r = static_cast<float>(most - red) / range;
  const float g = static_cast<float>(most - green) / range;
  const float b = static_cast<float>(most - blue) / range;
  const auto sixth = static_cast<float>(red == most     ? b - g
                                        : green == most ? 2.0 + r - b
                                                        : 4.0 + g - r);
  const auto hue = static_cast<float>(std::fmod(sixth / 6.0 + 1.0, 1.0));
  const float level_before = range / static_cast<float>(most);
  const auto to_step = [](float part) {
    return static_cast<uint8_t>(std::clamp(static_cast<int>(part * 255.0), 0, 255));
  };
  const auto step = to_step(hue), saturation = to_step(level_before);
  const auto turned = static_cast<uint8_t>(step + turn);

  const float position = static_cast<float>(turned) * 6.0f / 255.0f;
  const float sector = std::floor(position), part = position - sector;
  const float level = static_cast<float>(saturation) / 255.0f;
  const auto scaled = [&](float factor) {
    const auto value = std::lround(static_cast<float>(most) * factor);
    return static_cast<uint8_t>(std::clamp<long>(value, 0, 255));
  };
  const auto low = scaled(1.0f - level), falling = scaled(1.0f - level * part);
  const auto rising = scaled(1.0f - level * (1.0f - part));
  const auto high = static_cast<uint8_t>(most);
  const std::array<std::array<uint8_t, 3>, 6> sectors = {{{high, rising, low},
                                                          {falling, high, low},
                                                          {low, high, rising},
                                                          {low, falling, high},
                                                          {rising, low, high},
                                                          {high, low, falling}}};
  std::ranges::copy(sectors[static_cast<size_t>(sector) % 6], rgb);
}

void change_hue(RgbImage& image, double turns) {
  const auto turn = static_cast<uint8_t>(static_cast<int>(turns * 255));
  for (size_t i = 0; i < image.rgb.size(); i += 3) turn_pixel(&image.rgb[i], turn);
}

class ColorJitter final : public ImageTransform {
 public:
  using Config = ColorJitterConfig;
  explicit ColorJitter(const Config& config) : config_(config) {}

  void apply(RgbImage& image, SampleRandom& random) const override {
    std::array<int, 4> order = {0, 1, 2, 3};
    for (uint32_t i = 3; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
    for (const int change : order) switch (change) {
        case 0: adjust(image, config_.brightness, random, change_brightness); break;
        case 1: adjust(image, config_.contrast, random, change_contrast); break;
        case 2: adjust(image, config_.saturation, random, change_saturation); break;
        default:
          if (config_.hue > 0) change_hue(image, random.uniform(-config_.hue, config_.hue));
      }
  }

 private:
  template <class Change>
  static void adjust(RgbImage& image, double amount, SampleRandom& random, Change change) {
    if (amount <= 0) return;
    change(image, static_cast<float>(random.uniform(std::max(0.0, 1 - amount), 1 + amount)));
  }

  ColorJitterConfig config_;
};

REGISTER_IMAGE_TRANSFORM("color_jitter", ColorJitter,
                         "randomly changes brightness, contrast, saturation and hue");

}  // namespace
}  // namespace lockstep::data
