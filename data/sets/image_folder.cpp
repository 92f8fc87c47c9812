// Dataset "image_folder": one directory per class, with JPEG, PNG and WebP files at any depth.
// Classes are numbered by name, samples by class and then by path, as in torchvision's ImageFolder.
// Fields: "image" float32 [B, 3, H, W], pixel / 255 after the transforms, normalized if configured;
// "label" int64 [B].
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "core/printable.h"
#include "core/relative_path_hint.h"
#include "core/system/durable_file.h"
#include "data/images/image_pipeline.h"
#include "formats/mapped_file.h"
#include "formats/path_list.h"
#include "lockstep/dataset.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileBytes = 1 << 30;
constexpr size_t kMaxPathLength = 4096;

struct ImageFolderConfig {
  std::string path;
  PartList<ImageTransform> transforms{image_transform_registry()};
  bool scaled_decoding = false;
  bool exif_orientation = false;
  int64_t max_pixels = 100'000'000;
};

template <class V>
void fields(V& v, ImageFolderConfig& c) {
  v("path", c.path, "directory with one directory of images per class", required());
  v("transforms", c.transforms,
    "transforms of an image, in order; all results must have the same size");
  v("scaled_decoding", c.scaled_decoding,
    "decode large JPEG files at 1/2, 1/4 or 1/8 of their size if the first transform reduces them "
    "that far: faster, with slightly different pixels");
  v("exif_orientation", c.exif_orientation,
    "rotate images according to their EXIF data; false: as stored, like torchvision");
  v("max_pixels", c.max_pixels, "larger images are errors", at_least(1));
}

std::string shown(const fs::path& path) { return printable(path.string(), kMaxPathLength); }

std::string ending_of(const fs::path& path) {
  auto ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending;
}

// Skips known other file types next to the images; other files are errors, so that no image is
// skipped silently.
bool is_image(const fs::path& path) {
  static const std::vector<std::string> read = {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp"};
  static const std::vector<std::string> notes = {".txt", ".md",   ".json", ".csv", ".tsv", ".xml",
                                                 ".yml", ".yaml", ".html", ".ini", ".log", ".db"};
  const auto ending = ending_of(path);
  if (std::ranges::find(read, ending) != read.end()) return true;
  const bool hidden = path.filename().string().starts_with('.');
  if (hidden || std::ranges::find(notes, ending) != notes.end()) return false;
  throw config_error(
      fmt::format("dataset image_folder: {}: only JPEG, PNG and WebP images are supported (*.jpg, "
                  "*.jpeg, *.png, *.webp); convert this file or move it out of the folder",
                  shown(path)));
}

std::vector<fs::path> list_classes(const fs::path& root) {
  if (formats::has_scheme(root))
    throw config_error(fmt::format(
        "dataset image_folder: {}: not supported in a bucket; copy the folder to a local disk",
        shown(root)));
  std::vector<fs::path> classes;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error))
    if (it->is_directory(error)) classes.push_back(it->path());
  if (error)
    throw config_error(fmt::format("dataset image_folder: cannot read directory {}: {}{}",
                                   shown(root), error.message(), relative_path_hint(root, "data")));
  if (classes.empty())
    throw config_error(
        fmt::format("dataset image_folder: {} has no directories: expected one per class, "
                    "with its images",
                    shown(root)));
  std::ranges::sort(classes);
  return classes;
}

// Sorted by directory, then by name.
std::vector<fs::path> list_images(const fs::path& directory) {
  std::vector<fs::path> images;
  std::error_code error;
  const auto options = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator it(directory, options, error), end; !error && it != end;
       it.increment(error))
    if (it->is_regular_file(error) && is_image(it->path())) images.push_back(it->path());
  if (error)
    throw config_error(fmt::format("dataset image_folder: cannot read directory {}: {}",
                                   shown(directory), error.message()));
  if (images.empty())
    throw config_error(fmt::format("dataset image_folder: class {} has no JPEG, PNG or WebP images",
                                   shown(directory)));
  std::ranges::sort(images, {}, [](const fs::path& path) {
    return std::pair(path.parent_path().string(), path.filename().string());
  });
  return images;
}

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

class ImageFolder final : public Dataset {
 public:
  using Config = ImageFolderConfig;

  explicit ImageFolder(const Config& config)
      : pipeline_(config.transforms),
        tables_(value_tables(pipeline_.normalization())),
        options_{.max_pixels = config.max_pixels,
                 .exif_orientation = config.exif_orientation,
                 .scaled = config.scaled_decoding,
                 .need = {}} {
    int64_t label = 0;
    for (const auto& directory : list_classes(config.path)) {
      for (auto& image : list_images(directory)) {
        files_.push_back(image.string());
        labels_.push_back(label);
      }
      ++label;
      classes_.push_back(printable(directory.filename().string(), kMaxPathLength));
    }
  }

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }

  std::vector<FieldLayout> layout() const override {
    const auto [height, width] = pipeline_.size();
    return {{"image", at::kFloat, {3, height, width}}, {"label", at::kLong, {}}};
  }

  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    const auto [height, width] = pipeline_.size();
    auto* pixels = fields[0].mutable_data_ptr<float>();
    auto* label = fields[1].mutable_data_ptr<int64_t>();
    for (const auto index : request.indices) {
      check(index >= 0 && index < size(), "sample index outside the dataset");
      const auto sample = static_cast<size_t>(index);
      to_planes(load(sample, {request.seed, request.epoch, index}), pixels);
      pixels += int64_t{3} * height * width;
      *label++ = labels_[sample];
    }
  }

  Json metadata() const override { return {{"classes", classes_}}; }

  SampleInfo sample_info() const override {
    return {.labels = [this] { return std::vector<double>(labels_.begin(), labels_.end()); }};
  }

 private:
  RgbImage load(size_t sample, SampleRandom random) const {
    const auto name = fmt::format("sample {} ({})", sample, shown(files_[sample]));
    const auto file = read_file(files_[sample], kMaxFileBytes);
    return pipeline_.load({reinterpret_cast<const uint8_t*>(file.data()), file.size()}, name,
                          options_, random);
  }

  void to_planes(const RgbImage& image, float* out) const {
    const auto count = static_cast<size_t>(image.size.height) * image.size.width;
    for (size_t channel = 0; channel < 3; ++channel) {
      const auto& table = tables_[channel];
      const auto* source = image.rgb.data() + channel;
      for (size_t i = 0; i < count; ++i) *out++ = table[source[3 * i]];
    }
  }

  ImagePipeline pipeline_;
  std::array<std::array<float, 256>, 3> tables_;
  formats::DecodeOptions options_;
  std::vector<std::string> files_;
  std::vector<int64_t> labels_;
  std::vector<std::string> classes_;
};

REGISTER_DATASET("image_folder", ImageFolder, "JPEG, PNG and WebP images, one directory per class");

}  // namespace
}  // namespace lockstep::data
