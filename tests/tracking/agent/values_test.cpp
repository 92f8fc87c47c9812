#include <png.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "lockstep/error.h"
#include "tracking/log/histogram.h"
#include "tracking/sinks/png.h"

using namespace lockstep;
using namespace lockstep::tracking;

TEST_CASE("histogram: every finite value falls into one bin") {
  const std::vector<float> values = {-1, 0, 0.5F, 1, 1, NAN, INFINITY};
  const auto histogram = make_histogram("w", 3, values, 4);
  CHECK(histogram.edges == std::vector<double>{-1, -0.5, 0, 0.5, 1});
  CHECK(histogram.counts == std::vector<double>{1, 0, 1, 3});
  CHECK(make_histogram("w", 0, std::vector<float>{7, 7}, 2).counts == std::vector<double>{2, 0});
  CHECK(make_histogram("w", 0, std::vector<float>{NAN}).counts == std::vector<double>{0});
}

TEST_CASE("png: an encoded image decodes to the same pixels") {
  for (const int channels : {1, 3, 4}) {
    std::vector<uint8_t> pixels(static_cast<size_t>(5 * 3 * channels));
    std::iota(pixels.begin(), pixels.end(), uint8_t{1});
    const auto file = encode_png(5, 3, channels, pixels);
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    REQUIRE(png_image_begin_read_from_memory(&image, file.data(), file.size()) != 0);
    CHECK(image.width == 5);
    CHECK(image.height == 3);
    std::vector<uint8_t> read(PNG_IMAGE_SIZE(image));
    REQUIRE(png_image_finish_read(&image, nullptr, read.data(), 0, nullptr) != 0);
    CHECK(read == pixels);
  }
  CHECK_THROWS_AS(encode_png(5, 3, 2, std::vector<uint8_t>(30)), Error);
  CHECK_THROWS_AS(encode_png(5, 3, 1, std::vector<uint8_t>(14)), Error);
}
