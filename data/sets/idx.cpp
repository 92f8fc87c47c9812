// Dataset "idx": images and class labels in two IDX files, as MNIST is distributed. Images are mapped,
// or decompressed to memory. Fields: "image" float32 [B, 1, H, W], pixel / 255, then (x - mean) / std
// if those are set; "label" int64 [B].
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "core/printable.h"
#include "core/relative_path_hint.h"
#include "data/byte_scaling.h"
#include "data/row_prefetch.h"
#include "formats/idx_file.h"
#include "formats/path_list.h"
#include "lockstep/config_value.h"
#include "lockstep/dataset.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

enum class IdxSplit { Train, Test };
constexpr auto choices(IdxSplit) { return std::array{"train", "test"}; }

struct IdxConfig {
  std::string path;
  IdxSplit split = IdxSplit::Train;
  std::optional<std::string> images, labels;
  std::optional<double> mean, std;
  std::optional<int64_t> limit;
};

template <class V>
void fields(V& v, IdxConfig& c) {
  v("path", c.path, "directory of the IDX files, plain or .gz", required());
  v("split", c.split, "which pair of MNIST files: train-* or t10k-*");
  v("images", c.images, "file of the images in path, instead of the split's");
  v("labels", c.labels, "file of the labels in path, instead of the split's");
  v("mean", c.mean, "subtracted from the pixels, which are 0 to 1; together with std");
  v("std", c.std, "divisor of the pixels after that", above(0));
  v("limit", c.limit, "use only the first N samples", at_least(1));
}

fs::path find_file(const IdxConfig& config, const std::optional<std::string>& given,
                   const std::string& usual) {
  if (formats::has_scheme(config.path))
    throw config_error(
        fmt::format("dataset idx: {}: not supported in a bucket or on a server; convert it to npy",
                    printable(config.path, 400)));
  const fs::path directory = config.path;
  std::vector<fs::path> candidates;
  if (given) {
    candidates = {directory / *given};
  } else {
    const auto prefix = config.split == IdxSplit::Train ? "train-" : "t10k-";
    candidates = {directory / (prefix + usual), directory / (prefix + usual + ".gz")};
  }
  std::string looked_for;
  for (const auto& candidate : candidates) {
    std::error_code error;
    if (fs::exists(candidate, error)) return candidate;
    if (error == std::errc::too_many_symbolic_link_levels)
      throw config_error(fmt::format("dataset idx: {}: symbolic links that form a loop",
                                     printable(candidate.string(), 400)));
    if (error)
      throw environment_error(
          fmt::format("dataset idx: {}: {}", printable(candidate.string(), 400), error.message()));
    looked_for += (looked_for.empty() ? "" : " or ") + candidate.string();
  }
  throw config_error(
      fmt::format("dataset idx: no file {}{} (MNIST: 'make setup' in Lockstep's sources fetches it "
                  "into .data/mnist; torchvision has it in MNIST/raw)",
                  looked_for, relative_path_hint(directory, "data")));
}

formats::IdxArray read_array(const fs::path& file, size_t num_dims, const char* role) {
  auto array = formats::read_idx_file(file);
  if (array.dims.size() == num_dims) return array;
  const bool swapped = array.dims.size() == 4 - num_dims;
  throw config_error(fmt::format(
      "dataset idx: {} holds {}, but {} have {}{}", file.string(), formats::dims_text(array.dims),
      role, num_dims == 3 ? "3 dimensions (count x height x width)" : "1 dimension (count)",
      swapped ? "; were the files of images and labels swapped?" : ""));
}

ByteScaling pixel_scaling(const IdxConfig& config) {
  if (config.mean.has_value() != config.std.has_value())
    throw config_error(fmt::format("dataset idx: set both mean and std: {} is missing",
                                   config.mean ? "std" : "mean"));
  return ByteScaling({.divide_by = 255, .mean = config.mean, .std = config.std});
}

class IdxDataset final : public Dataset {
 public:
  using Config = IdxConfig;

  explicit IdxDataset(const Config& config) : scaling_(pixel_scaling(config)) {
    const auto images_file = find_file(config, config.images, "images-idx3-ubyte");
    const auto labels_file = find_file(config, config.labels, "labels-idx1-ubyte");
    auto labels = read_array(labels_file, 1, "labels");
    auto images = read_array(images_file, 3, "images");
    if (images.dims[0] != labels.dims[0])
      throw config_error(fmt::format("dataset idx: {} has {} images, but {} has {} labels",
                                     images_file.string(), images.dims[0], labels_file.string(),
                                     labels.dims[0]));
    height_ = images.dims[1];
    width_ = images.dims[2];
    images_ = std::move(images);
    labels_.assign(labels.values.begin(), labels.values.end());
    if (labels.mapped) labels.mapped->verify_unchanged();
    if (config.limit) keep_first(*config.limit);
  }

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }

  std::vector<FieldLayout> layout() const override {
    return {{"image", at::kFloat, {1, height_, width_}}, {"label", at::kLong, {}}};
  }

  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    for (const auto index : request.indices)
      check(index >= 0 && index < size(), "sample index outside the dataset");
    const auto num_pixels = static_cast<size_t>(height_ * width_);
    auto* pixels = fields[0].mutable_data_ptr<float>();
    auto* labels = fields[1].mutable_data_ptr<int64_t>();
    for (size_t i = 0; i < request.indices.size(); ++i, pixels += num_pixels) {
      prefetch_row(images_.values.data(), num_pixels, request.indices, i);
      const auto sample = static_cast<size_t>(request.indices[i]);
      scaling_.apply(images_.values.subspan(sample * num_pixels, num_pixels), pixels);
      labels[i] = labels_[sample];
    }
    if (!images_.mapped) return;
    images_.mapped->verify_unchanged();
    images_.mapped->note_read(request.indices.size() * num_pixels, request.indices.size());
  }

  SampleInfo sample_info() const override {
    return {.labels = [this] { return std::vector<double>(labels_.begin(), labels_.end()); }};
  }

 private:
  void keep_first(int64_t limit) {
    if (limit > size())
      throw config_error(fmt::format(
          "dataset idx: limit {} is larger than the number of samples, {}", limit, size()));
    labels_.resize(static_cast<size_t>(limit));
    labels_.shrink_to_fit();
    const auto kept = images_.values.first(static_cast<size_t>(limit * height_ * width_));
    if (images_.memory)
      images_.memory = std::make_shared<const std::vector<uint8_t>>(kept.begin(), kept.end());
    images_.values = images_.memory ? std::span(*images_.memory) : kept;
  }

  ByteScaling scaling_;
  int64_t height_ = 0, width_ = 0;
  formats::IdxArray images_;
  std::vector<uint8_t> labels_;
};

REGISTER_DATASET("idx", IdxDataset, "images and labels in IDX files, such as MNIST");

}  // namespace
}  // namespace lockstep::data
