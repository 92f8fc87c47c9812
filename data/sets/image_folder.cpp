// Dataset "image_folder": one directory per class, with JPEG, PNG and WebP files at any depth.
// Classes are numbered by name, samples by class and then by path, as in torchvision's ImageFolder;
// those of an evaluation set have the numbers of the training set.
// Fields: "image" float32 [B, 3, H, W], pixel / 255 after the transforms, normalized if configured;
// "label" int64 [B].
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/config/nearest_name.h"
#include "core/lower_case.h"
#include "core/printable.h"
#include "core/relative_path_hint.h"
#include "core/system/durable_file.h"
#include "data/images/image_pipeline.h"
#include "data/sampling/split.h"
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
  ImageConfig images;
};

template <class V>
void fields(V& v, ImageFolderConfig& c) {
  v("path", c.path, "directory with one directory of images per class", required());
  fields(v, c.images);
}

std::string shown(const fs::path& path) { return printable(path.string(), kMaxPathLength); }

std::string ending_of(const fs::path& path) { return lower_case(path.extension().string()); }

// Skips known other file types next to the images; other files are errors, so that no image is
// skipped silently.
bool is_image(const fs::path& path) {
  static const std::vector<std::string> read = {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp"};
  static const std::vector<std::string> notes = {".txt", ".md",   ".json", ".csv", ".tsv", ".xml",
                                                 ".yml", ".yaml", ".html", ".ini", ".log", ".db"};
  if (path.filename().string().starts_with('.')) return false;  // hidden
  const auto ending = ending_of(path);
  if (std::ranges::find(read, ending) != read.end()) return true;
  if (std::ranges::find(notes, ending) != notes.end()) return false;
  throw config_error(
      fmt::format("dataset image_folder: {}: only JPEG, PNG and WebP images are supported (*.jpg, "
                  "*.jpeg, *.png, *.webp); convert this file or move it out of the folder",
                  shown(path)));
}

// Throws Config for a link that leads nowhere, with which a class or an image would be left out.
fs::file_status status_of(const fs::directory_entry& entry) {
  std::error_code error;
  const auto status = entry.status(error);
  if (status.type() == fs::file_type::not_found || error)
    throw config_error(
        fmt::format("dataset image_folder: {}: cannot be read: {}", shown(entry.path()),
                    error ? error.message()
                          : std::make_error_code(std::errc::no_such_file_or_directory).message()));
  return status;
}

std::vector<fs::path> list_classes(const fs::path& root) {
  if (formats::has_scheme(root))
    throw config_error(
        fmt::format("dataset image_folder: {}: not supported in a bucket or on a server; copy the "
                    "folder to a local disk",
                    shown(root)));
  std::vector<fs::path> classes;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error))
    if (fs::is_directory(status_of(*it))) classes.push_back(it->path());
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
    if (fs::is_regular_file(status_of(*it)) && is_image(it->path())) images.push_back(it->path());
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

class ImageFolder final : public Dataset {
 public:
  using Config = ImageFolderConfig;

  explicit ImageFolder(const Config& config) : path_(config.path), pipeline_(config.images) {
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

  void fit(const Dataset& train_set, std::span<const int64_t>) override {
    const auto trained = class_names_of(train_set);  // also of another format
    if (&train_set == this || trained.empty()) return;
    std::vector<int64_t> numbers;
    for (const auto& name : classes_) {
      const auto found = std::ranges::find(trained, name);
      if (found == trained.end()) {
        const auto* const folder = dynamic_cast<const ImageFolder*>(&train_set);
        throw config_error(fmt::format(
            "dataset image_folder: {}: class '{}' does not occur in {}{}", shown(path_), name,
            folder ? shown(folder->path_) + ", the training data"
                   : std::string("the training data"),
            suggest(name, trained)));
      }
      numbers.push_back(found - trained.begin());
    }
    for (auto& label : labels_) label = numbers[static_cast<size_t>(label)];
    classes_ = trained;
  }

  std::vector<FieldLayout> layout() const override {
    return {{"image", at::kFloat, pipeline_.shape()}, {"label", at::kLong, {}}};
  }

  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    auto* pixels = fields[0].mutable_data_ptr<float>();
    auto* label = fields[1].mutable_data_ptr<int64_t>();
    for (const auto index : request.indices) {
      check(index >= 0 && index < size(), "sample index outside the dataset");
      const auto sample = static_cast<size_t>(index);
      load(sample, {request.seed, request.epoch, index}, pixels);
      pixels += pipeline_.num_values();
      *label++ = labels_[sample];
    }
  }

  Json metadata() const override { return {{"classes", classes_}}; }

  SampleInfo sample_info() const override {
    return {.labels = [this] { return std::vector<double>(labels_.begin(), labels_.end()); }};
  }

 private:
  void load(size_t sample, SampleRandom random, float* out) const {
    const auto name = fmt::format("sample {} ({})", sample, shown(files_[sample]));
    const auto file = read_file(files_[sample], kMaxFileBytes);
    pipeline_.load({reinterpret_cast<const uint8_t*>(file.data()), file.size()}, name, random, out);
  }

  std::string path_;
  ImagePipeline pipeline_;
  std::vector<std::string> files_;
  std::vector<int64_t> labels_;
  std::vector<std::string> classes_;
};

REGISTER_DATASET("image_folder", ImageFolder, "JPEG, PNG and WebP images, one directory per class");

}  // namespace
}  // namespace lockstep::data
