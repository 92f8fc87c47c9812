#include "trainer/commands/inspect_data.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "data/contact_sheet.h"
#include "data/loader/loader.h"
#include "data/sampling/sampling.h"
#include "lockstep/error.h"
#include "tracking/sinks/png.h"

namespace lockstep::trainer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLoadingTime = std::chrono::seconds(3);
constexpr size_t kClassesShown = 20;
constexpr int64_t kImagesShown = 64;
constexpr int kImagesPerRow = 8;

std::string line(const char* name, const std::string& value) {
  return fmt::format("  {:<10}{}\n", name, value);
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const auto size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

std::string describe_fields(const Batch& batch) {
  std::string text;
  for (const auto& [name, tensor] : batch.fields) {
    auto shape = tensor.sizes().vec();
    if (!shape.empty()) shape.erase(shape.begin());
    const auto values = tensor.to(at::kDouble);
    text += line(text.empty() ? "fields" : "",
                 fmt::format("{} {} {} per sample; in the first batch from {:.4g} to {:.4g}, mean "
                             "{:.4g}",
                             name, c10::toString(tensor.scalar_type()), shape_text(shape),
                             values.min().item<double>(), values.max().item<double>(),
                             values.mean().item<double>()));
  }
  return text;
}

// Their numbers, for a dataset without names.
std::vector<std::string> class_names(const Dataset& dataset, size_t count) {
  const auto metadata = dataset.metadata();
  const auto known = metadata.is_object() ? metadata.value("classes", Json()) : Json();
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i)
    names.push_back(known.is_array() && i < known.size() && known[i].is_string()
                        ? printable(known[i].get<std::string>(), 40)
                        : std::to_string(i));
  return names;
}

std::string describe_classes(const Dataset& dataset) {
  const auto labels = dataset.sample_info().labels();
  if (labels.empty()) return {};
  if (!data::are_classes(labels)) {
    const auto [low, high] = std::ranges::minmax_element(labels);
    return line("labels", fmt::format("values from {:.4g} to {:.4g}", *low, *high));
  }
  const auto counts = data::count_classes(labels);
  const auto names = class_names(dataset, counts.size());
  const auto [least, most] = std::ranges::minmax_element(counts);
  auto text =
      line("classes", fmt::format("{}, with {} to {} samples", counts.size(), *least, *most));
  for (size_t i = 0; i < std::min(counts.size(), kClassesShown); ++i) {
    const auto share = static_cast<double>(counts[i]) / static_cast<double>(labels.size());
    text += line("", fmt::format("{:>4}  {:>9}  {:5.1f} %  {}", names[i], counts[i], 100 * share,
                                 std::string(static_cast<size_t>(share * 50), '#')));
  }
  if (counts.size() > kClassesShown)
    text += line("", fmt::format("... and {} more", counts.size() - kClassesShown));
  return text;
}

// Loads for kLoadingTime, or to the end of the epoch.
std::string measure_loading(data::Loader& loader, int64_t workers) {
  int64_t samples = 0, bytes = 0;
  const auto begin = Clock::now();
  while (Clock::now() - begin < kLoadingTime) {
    const auto batch = loader.next();
    if (!batch) break;
    samples += batch->size();
    for (const auto& [name, tensor] : batch->fields) bytes += static_cast<int64_t>(tensor.nbytes());
  }
  const std::chrono::duration<double> elapsed = Clock::now() - begin;
  return line("loading",
              fmt::format("{:.0f} samples/s, {:.1f} MB/s, by {} worker{} ({} samples in {:.2f} s, "
                          "a single rank)",
                          static_cast<double>(samples) / elapsed.count(),
                          static_cast<double>(bytes) / 1e6 / elapsed.count(), workers,
                          workers == 1 ? "" : "s", samples, elapsed.count()));
}

void write_sheet(const Dataset& dataset, const data::IndexSequence& indices,
                 const std::filesystem::path& path) {
  const auto count = std::min(indices.size(), int64_t{kImagesShown});
  data::Loader loader(dataset, indices.slice(0, count),
                      {.batch_size = count, .name = "data.train"});
  const auto sheet = data::contact_sheet(loader.next()->at("image"), kImagesPerRow);
  write_output_file(path, tracking::encode_png(sheet.size.width, sheet.size.height, 3, sheet.rgb));
}

std::string inspect_training(const PreparedRun& run, const std::filesystem::path& sheet) {
  const auto& [config, plan] = std::tie(run.config, run.plan);
  const auto& dataset = *run.data.train;
  const auto world = run.ranks.world_size;
  data::DistributedSampler sampler(dataset.size(), {0, world}, run.order);
  sampler.set_epoch(0, config.data.loader.shuffle_lanes);
  const auto indices = sampler.sequence();
  data::LoaderOptions loading = {
      .batch_size = plan.per_rank_batch_size, .seed = run.order.seed, .name = "data.train"};
  auto text = fmt::format("data.train: {}\n", config.data.train.name());
  text += line("samples", std::to_string(dataset.size()));
  for (const auto& warning : dataset.warnings()) text += line("note", warning);
  text += describe_fields(data::Loader(dataset, indices, loading).next().value());
  text += describe_classes(dataset);
  text += line("batches", fmt::format("{} per epoch, of {} samples: {} on each of {} rank{}",
                                      plan.batches_per_epoch, plan.global_batch_size,
                                      plan.per_rank_batch_size, world, world == 1 ? "" : "s"));
  text += line("per rank", fmt::format("{} samples per epoch", sampler.num_samples()));
  loading.workers = plan.workers_per_rank;
  loading.prefetch = config.data.loader.prefetch;
  data::Loader loader(dataset, indices, loading);
  text += measure_loading(loader, plan.workers_per_rank);
  if (sheet.empty()) return text;
  write_sheet(dataset, indices, sheet);
  return text + line("sheet", sheet.string());
}

std::string inspect_evaluation(const PreparedRun& run) {
  const auto& data = run.config.data;
  const auto& dataset = *run.data.eval;
  const auto indices = data::exact_split(dataset.size(), {0, run.ranks.world_size});
  data::Loader loader(dataset, indices, {.batch_size = data.eval_batch_size, .name = "data.eval"});
  const auto& part = data.eval.is_set() ? data.eval : data.train;
  auto text = fmt::format("data.eval: {}\n", part.name());
  text += line("samples", std::to_string(dataset.size()));
  if (const auto batch = loader.next()) text += describe_fields(*batch);
  return text + describe_classes(dataset);
}

}  // namespace

std::string inspect_data(const PreparedRun& run, const std::filesystem::path& sheet) {
  auto text = inspect_training(run, sheet);
  if (run.data.eval) text += inspect_evaluation(run);
  return text;
}

}  // namespace lockstep::trainer
