#include "tracking/sinks/tensorboard/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::tracking::tensorboard {
namespace {

// Members of Summary.Value.
constexpr int kTag = 1, kSimpleValue = 2, kImage = 4, kHisto = 5, kAudio = 6, kTensor = 8,
              kMetadata = 9;
constexpr uint64_t kDtFloat = 1, kDtString = 7;  // types of tensors
constexpr uint64_t kTensorClass = 2;             // DATA_CLASS_TENSOR

ProtobufWriter plugin_metadata(std::string_view plugin, const ProtobufWriter& content) {
  ProtobufWriter data, metadata;
  data.bytes(1, plugin);
  data.message(2, content);
  metadata.message(1, data);
  metadata.varint(4, kTensorClass);
  return metadata;
}

// Encodes a tensor of one string.
ProtobufWriter string_value(std::string_view tag, std::string_view plugin, std::string_view text) {
  ProtobufWriter tensor, value;
  tensor.varint(1, kDtString);
  tensor.message(2, {});  // no dimensions
  tensor.bytes(8, text);
  value.bytes(kTag, as_utf8(tag));
  value.message(kMetadata, plugin_metadata(plugin, {}));
  value.message(kTensor, tensor);
  return value;
}

size_t num_bins(const Histogram& histogram) {
  return histogram.edges.empty() ? 0
                                 : std::min(histogram.counts.size(), histogram.edges.size() - 1);
}

struct Moments {
  double min = 0, max = 0, num = 0, sum = 0, sum_of_squares = 0;
};

// TensorBoard omits empty bins at the ends and draws the others from min to max. For an infinite
// edge, the other edge of its bin is used.
Moments moments_of(const Histogram& histogram) {
  Moments moments;
  for (size_t i = 0; i < num_bins(histogram); ++i) {
    const auto count = histogram.counts[i];
    if (!(count > 0)) continue;
    auto left = histogram.edges[i], right = histogram.edges[i + 1];
    if (!std::isfinite(left)) left = right;
    if (!std::isfinite(right)) right = left;
    if (moments.num == 0) moments.min = left;
    moments.max = right;
    const auto middle = left + (right - left) / 2;
    moments.num += count;
    moments.sum += count * middle;
    moments.sum_of_squares += count * middle * middle;
  }
  return moments;
}

std::string cell_text(const Json& cell) {
  using Handler = nlohmann::detail::error_handler_t;
  const bool is_special = cell.is_number_float() && !std::isfinite(cell.get<double>());
  const auto text = cell.is_string() ? cell.get<std::string>()
                    : is_special     ? fmt::format("{}", cell.get<double>())
                                     : cell.dump(-1, ' ', false, Handler::replace);
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
  return escaped;
}

}  // namespace

ProtobufWriter scalar_value(std::string_view tag, double value) {
  ProtobufWriter message;
  message.bytes(kTag, as_utf8(tag));
  message.float32(kSimpleValue, static_cast<float>(value));
  return message;
}

ProtobufWriter text_value(std::string_view tag, std::string_view markdown) {
  return string_value(tag, "text", as_utf8(markdown));
}

ProtobufWriter histogram_value(const Histogram& histogram) {
  const auto moments = moments_of(histogram);
  const auto bins = num_bins(histogram);
  ProtobufWriter histo, value;
  histo.float64(1, moments.min);
  histo.float64(2, moments.max);
  histo.float64(3, moments.num);
  histo.float64(4, moments.sum);
  histo.float64(5, moments.sum_of_squares);
  if (bins > 0) histo.doubles(6, std::span(histogram.edges).subspan(1, bins));  // right edges
  histo.doubles(7, std::span(histogram.counts).first(bins));
  value.bytes(kTag, as_utf8(histogram.at.name));
  value.message(kHisto, histo);
  return value;
}

ProtobufWriter image_value(const Image& image) {
  ProtobufWriter picture, value;
  picture.int64(1, image.height);
  picture.int64(2, image.width);
  picture.bytes(4, image.png);
  value.bytes(kTag, as_utf8(image.at.name));
  value.message(kImage, picture);
  return value;
}

ProtobufWriter audio_value(const Clip& clip) {
  ProtobufWriter audio, value;
  audio.bytes(4, clip.bytes);
  audio.bytes(5, clip.type);
  value.bytes(kTag, as_utf8(clip.at.name));
  value.message(kAudio, audio);
  return value;
}

ProtobufWriter layout_value(const std::vector<std::string>& names) {
  ProtobufWriter category, layout;
  category.bytes(1, "ranks");
  for (const auto& name : names) {
    const auto tag = as_utf8(name);
    ProtobufWriter series, margin, chart;
    series.bytes(1, tag);
    series.bytes(2, tag + "/min");
    series.bytes(3, tag + "/max");
    margin.message(1, series);
    chart.bytes(1, tag);
    chart.message(3, margin);
    category.message(2, chart);
  }
  layout.message(2, category);
  return string_value("custom_scalars__config__", "custom_scalars", layout.view());
}

ProtobufWriter metadata_value(std::string_view tag, std::string_view plugin,
                              const ProtobufWriter& content) {
  ProtobufWriter dimension, shape, tensor, value;
  dimension.int64(1, 0);
  shape.message(2, dimension);
  tensor.varint(1, kDtFloat);
  tensor.message(2, shape);  // no elements
  value.bytes(kTag, tag);
  value.message(kMetadata, plugin_metadata(plugin, content));
  value.message(kTensor, tensor);
  return value;
}

std::string markdown(const Table& table) {
  std::string text = "|", rule = "|";
  for (const auto& column : table.columns) {
    text += fmt::format(" {} |", cell_text(column));
    rule += " --- |";
  }
  text += "\n" + rule;
  for (const auto& row : table.rows) {
    text += "\n|";
    for (const auto& cell : row) text += fmt::format(" {} |", cell_text(cell));
  }
  return text;
}

std::string markdown(const Alert& alert) {
  return fmt::format("**{}: {}**\n\n{}", level_name(alert.level), alert.title, alert.text);
}

}  // namespace lockstep::tracking::tensorboard
