// Shapes: B: samples of the batch, K: classes or values.
#include "trainer/loop/evaluation_media.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "data/contact_sheet.h"
#include "distributed/objects.h"
#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"
#include "tracking/sinks/png.h"
#include "trainer/metrics/class_counts.h"
#include "trainer/metrics/dataset_metadata.h"

namespace lockstep::trainer {
namespace {

constexpr int64_t kHistogramBins = 64, kMaxShownNumbers = 32;
constexpr int64_t kMaxExactCount = int64_t{1} << 24;  // of at::histc, which counts in float32

Moment named(Moment at, const std::string& name) {
  at.name = name;
  return at;
}

// The small fields of a sample, e.g. the features of a table's row.
std::string inputs_text(const Batch& sample) {
  std::string text;
  for (const auto& [name, tensor] : sample.fields) {
    if (name == "label" || tensor.numel() > kMaxShownNumbers) continue;
    const auto numbers = tensor.flatten().to(at::kDouble);
    text += text.empty() ? name + ":" : "; " + name + ":";
    for (int64_t i = 0; i < numbers.numel(); ++i)
      text += fmt::format(" {:.4g}", numbers[i].item<double>());
  }
  return text;
}

// [B, K]; undefined: the model returns none per sample.
at::Tensor predictions_per_sample(const Outputs& outputs) {
  const auto& predictions = outputs.predictions;
  if (!predictions.defined() || predictions.dim() < 1 || predictions.dim() > 2) return {};
  return (predictions.dim() == 1 ? predictions.unsqueeze(1) : predictions).to(at::kFloat);
}

bool are_classes(const at::Tensor& label, const at::Tensor& predictions_BK) {
  return at::isIntegralType(label.scalar_type(), /*includeBool=*/true) && label.dim() == 1 &&
         label.size(0) == predictions_BK.size(0) && predictions_BK.size(1) > 1;
}

void record_histogram(Tracker& tracker, const Moment& at, const at::Tensor& tensor) {
  auto values = tensor.detach().flatten().to(at::kFloat);
  values = values.masked_select(values.isfinite());
  if (values.numel() == 0) return;
  auto low = values.min().item<double>(), high = values.max().item<double>();
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  auto counts = at::zeros({kHistogramBins}, at::kDouble);
  for (const auto& piece : values.split(kMaxExactCount))
    counts += at::histc(piece, kHistogramBins, low, high).to(at::kCPU, at::kDouble);
  Histogram histogram{.at = at, .edges = {}, .counts = {}};
  const double width = (high - low) / static_cast<double>(kHistogramBins);
  for (int64_t i = 0; i < kHistogramBins; ++i) {
    histogram.edges.push_back(low + width * static_cast<double>(i));
    histogram.counts.push_back(counts[i].item<double>());
  }
  histogram.edges.push_back(std::nextafter(high, INFINITY));  // the last bin includes the maximum
  tracker.histogram(std::move(histogram));
}

}  // namespace

void verify_media(const tracking::MediaConfig& config, const Batch& batch, const Outputs& outputs) {
  const auto* label = batch.find("label");
  const auto predictions_BK = predictions_per_sample(outputs);
  const bool has_labels = label && predictions_BK.defined();
  const bool has_classes = has_labels && are_classes(*label, predictions_BK);
  if (config.confusion && !has_classes)
    throw config_error(
        "tracking.media.confusion needs a classifier: predictions of several classes, and an "
        "integer 'label' of each sample; remove it");
  if (config.confusion && predictions_BK.size(1) > kMaxClasses)
    throw config_error(
        fmt::format("tracking.media.confusion is for up to {} classes; the model has {}",
                    kMaxClasses, predictions_BK.size(1)));
  const bool has_values =
      has_labels && label->is_floating_point() && label->numel() == predictions_BK.numel();
  if (config.worst_samples > 0 && !has_classes && !has_values)
    throw config_error(
        "tracking.media.worst_samples needs predictions of each sample, and a 'label' that fits "
        "them; remove it");
}

EvaluationMedia::EvaluationMedia(const tracking::MediaConfig& config, World& world,
                                 const Dataset& eval_set)
    : config_(config), world_(world), eval_set_(eval_set) {
  const auto metadata = metadata_of(eval_set, "data.eval");
  if (metadata.contains("classes")) classes_ = metadata["classes"].get<std::vector<std::string>>();
}

void EvaluationMedia::add_batch(const Batch& batch, const Outputs& outputs) {
  verify_media(config_, batch, outputs);
  const auto& label = batch.at("label");
  const auto predictions_BK = predictions_per_sample(outputs);
  has_classes_ = are_classes(label, predictions_BK);
  if (config_.worst_samples == 0) return;
  if (has_classes_) {
    const auto label_B = label.to(at::kLong);
    keep_worst(at::cross_entropy_loss(predictions_BK, label_B, {}, at::Reduction::None),
               predictions_BK.argmax(1), label_B, batch.indices);
  } else {
    const auto label_BK = label.view_as(predictions_BK);
    keep_worst((predictions_BK - label_BK).square().mean(1), predictions_BK.select(1, 0),
               label_BK.select(1, 0), batch.indices);
  }
}

void EvaluationMedia::keep_worst(const at::Tensor& losses, const at::Tensor& predicted,
                                 const at::Tensor& label, const at::Tensor& indices) {
  const auto on_cpu = [](const at::Tensor& tensor) {
    return tensor.to(at::kCPU, at::kDouble).contiguous();
  };
  const auto losses_B = on_cpu(losses), predicted_B = on_cpu(predicted), label_B = on_cpu(label);
  for (int64_t i = 0; i < indices.numel(); ++i)
    worst_.push_back({losses_B.const_data_ptr<double>()[i], indices.const_data_ptr<int64_t>()[i],
                      label_B.const_data_ptr<double>()[i],
                      predicted_B.const_data_ptr<double>()[i]});
  const auto kept = std::min(worst_.size(), static_cast<size_t>(config_.worst_samples));
  std::ranges::partial_sort(worst_, worst_.begin() + static_cast<ptrdiff_t>(kept), is_worse);
  worst_.resize(kept);
}

bool EvaluationMedia::is_worse(const Sample& a, const Sample& b) {
  const auto key = [](const Sample& sample) {
    return std::pair(std::isnan(sample.loss) ? -INFINITY : -sample.loss, sample.index);
  };
  return key(a) < key(b);
}

void EvaluationMedia::gather_worst() {
  auto own = nlohmann::json::array();
  for (const auto& sample : worst_)
    own.push_back({sample.loss, sample.index, sample.actual, sample.predicted});
  worst_.clear();
  for (const auto& rank : distributed::all_gather_object(world_, own, "media of an evaluation"))
    for (const auto& sample : rank)
      worst_.push_back({sample[0].get<double>(), sample[1].get<int64_t>(), sample[2].get<double>(),
                        sample[3].get<double>()});
  std::ranges::sort(worst_, is_worse);
  worst_.resize(std::min(worst_.size(), static_cast<size_t>(config_.worst_samples)));
}

void EvaluationMedia::record(Tracker& tracker, const Moment& at, const at::Tensor& confusion) {
  gather_worst();
  if (!tracking::is_main(world_.rank())) return;
  if (config_.confusion && confusion.defined()) record_confusion(tracker, at, confusion);
  if (!worst_.empty()) record_worst(tracker, at);
}

void EvaluationMedia::record_confusion(Tracker& tracker, const Moment& at,
                                       const at::Tensor& confusion) const {
  const auto num_classes = confusion.size(0);
  const auto* counts = confusion.const_data_ptr<int64_t>();
  Table pairs{.at = named(at, "eval/confusion"), .columns = {"actual", "predicted", "count"}};
  for (int64_t i = 0; i < num_classes; ++i)
    for (int64_t j = 0; j < num_classes; ++j)
      if (const auto count = counts[i * num_classes + j])
        pairs.rows.push_back(
            {name_of(static_cast<double>(i)), name_of(static_cast<double>(j)), count});
  Table classes{.at = named(at, "eval/classes"),
                .columns = {"class", "samples", "precision", "recall", "f1"}};
  const auto counted = counts_of(confusion);
  for (size_t i = 0; i < counted.size(); ++i) {
    const auto& each = counted[i];
    if (each.is_met())
      classes.rows.push_back({name_of(static_cast<double>(i)), each.actual,
                              each.value(Score::Precision), each.value(Score::Recall),
                              each.value(Score::F1)});
  }
  tracker.table(std::move(pairs));
  tracker.table(std::move(classes));
  tracker.log(at.step, at.epoch,
              std::array{Metric{"eval/precision", macro_average(counted, Score::Precision)},
                         Metric{"eval/recall", macro_average(counted, Score::Recall)},
                         Metric{"eval/f1", macro_average(counted, Score::F1)}});
}

void EvaluationMedia::record_worst(Tracker& tracker, const Moment& at) const {
  Table table{.at = named(at, "eval/worst"),
              .columns = {"sample", "actual", "predicted", "loss", "inputs"}};
  for (const auto& sample : worst_) {
    Batch batch;
    try {
      batch = eval_set_.get_batch(std::array{sample.index});
    } catch (const Error&) {
      continue;  // loaded before; the evaluation reports samples that cannot be loaded
    }
    table.rows.push_back({sample.index, name_of(sample.actual), name_of(sample.predicted),
                          sample.loss, inputs_text(batch)});
    record_image(tracker, named(at, "eval/worst"), batch, sample);
  }
  tracker.table(std::move(table));
}

void EvaluationMedia::record_image(Tracker& tracker, const Moment& at, const Batch& batch,
                                   const Sample& sample) const {
  const auto* image = batch.find("image");
  const bool is_image = image && image->dim() == 4 && (image->size(1) == 1 || image->size(1) == 3);
  if (!is_image) return;
  const auto picture = data::contact_sheet(*image, 1);
  tracker.image(
      {.at = at,
       .width = picture.size.width,
       .height = picture.size.height,
       .caption = fmt::format("sample {}: {}, predicted {}, loss {:.4g}", sample.index,
                              name_of(sample.actual), name_of(sample.predicted), sample.loss),
       .png = tracking::encode_png(picture.size.width, picture.size.height, 3, picture.rgb)});
}

std::string EvaluationMedia::name_of(double label) const {
  if (!has_classes_) return fmt::format("{:.6g}", label);
  const auto number = static_cast<size_t>(label);
  return number < classes_.size() ? classes_[number] : std::to_string(number);
}

void record_histograms(const World& world, Tracker& tracker, const Moment& at,
                       const NamedTensors& parameters) {
  if (!tracking::is_main(world.rank()) || !tracker.is_logging()) return;
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : parameters) {
    record_histogram(tracker, named(at, "parameters/" + name), parameter);
    if (parameter.grad().defined())
      record_histogram(tracker, named(at, "gradients/" + name), parameter.grad());
  }
}

}  // namespace lockstep::trainer
