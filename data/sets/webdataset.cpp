// Dataset "webdataset": images and labels in tar archives (shards), by the convention of WebDataset
// (formats/tar/tar_samples.h). The archives are mapped, so they may be larger than memory. With an index
// (formats/tar/tar_index.h), an archive is opened when its first sample is needed, else all are at the start.
// Fields: "image" float32 [B, 3, H, W], pixel / 255 after the transforms, normalized if configured; "label" int64 [B].
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "core/trimmed.h"
#include "data/block_cache.h"
#include "data/images/image_pipeline.h"
#include "data/sample_runs.h"
#include "data/sets/class_names.h"
#include "data/shard_error.h"
#include "formats/mapped_file.h"
#include "formats/path_list.h"
#include "formats/tar/tar_index.h"
#include "formats/tar/tar_samples.h"
#include "lockstep/dataset.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// Maximum number of mapped archives kept open: below the limit of a process.
constexpr int64_t kMaxArchives = 256;
constexpr size_t kMaxImageBytes = 1 << 30;
constexpr size_t kMaxLabelBytes = 1 << 24;
constexpr size_t kMaxShown = 400;

constexpr std::array kImageExtensions = {"jpg", "jpeg", "jpe", "jfif", "png", "webp"};

struct WebDatasetConfig {
  std::string path;
  std::optional<std::string> image;
  std::string label = "cls";
  std::optional<std::string> label_key;
  std::vector<std::string> classes;
  ImageConfig images;
  std::optional<int64_t> limit;
};

template <class V>
void fields(V& v, WebDatasetConfig& c) {
  v("path", c.path,
    "a tar archive, a folder of *.tar files, or the files of a range: train-{0000..0146}.tar",
    required());
  v("image", c.image,
    "extension of the image (default: the only one of jpg, jpeg, jpe, jfif, png and webp in a "
    "sample)");
  v("label", c.label, "extension of the label: a file with the number or the name of a class");
  v("label_key", c.label_key, "key of the label, if label is a JSON file");
  v("classes", c.classes,
    "names of the classes in the order of their numbers; needed if labels are names");
  fields(v, c.images);
  v("limit", c.limit, "use only the first N samples", at_least(1));
}

std::string shown_path(const std::filesystem::path& path) {
  return printable(path.string(), kMaxShown);
}

Error webdataset_error(const std::string& what, const std::string& why) {
  return config_error(fmt::format("dataset webdataset: {}: {}", what, why));
}

struct TarArchives {
  std::vector<std::filesystem::path> files;
  bool are_all = false;  // of their folder
};

TarArchives tar_archives(const std::string& path) {
  const auto numbered = formats::numbered_files(path);
  if (numbered.size() > 1 || !formats::is_folder(numbered.front())) return {numbered, false};
  const auto is_wanted = [](const std::filesystem::path& file) {
    const auto name = file.filename().string();
    for (const auto* packed : {".tgz", ".tar.gz", ".tar.zst", ".tar.xz", ".tar.bz2", ".tar.lz4"})
      if (name.ends_with(packed))
        throw webdataset_error(shown_path(file),
                               "compressed archives are not supported: decompress it, as samples "
                               "are read in any order");
    return name.ends_with(".tar");
  };
  const auto files = formats::list_files(numbered.front(), is_wanted);
  if (files.empty())
    throw webdataset_error(printable(path, kMaxShown), "no *.tar files in this directory");
  return {files, true};
}

// Finds the image and the class of each sample.
class SampleIndexer {
 public:
  explicit SampleIndexer(const WebDatasetConfig& config)
      : config_(config), classes_("webdataset", config.classes) {
    if (is_json() != config.label_key.has_value())
      throw config_error(
          is_json() ? fmt::format("dataset webdataset: label: {} needs label_key: the key of the "
                                  "label in this file",
                                  printable(config.label))
                    : "dataset webdataset: label_key has no effect: label is not a JSON file");
  }

  formats::TarMember image_of(const formats::TarSample& sample, const std::string& archive) const {
    const formats::TarSampleMember* found = nullptr;
    for (const auto& member : sample.members) {
      const bool is_image =
          config_.image ? member.extension == *config_.image : is_image_extension(member.extension);
      if (!is_image) continue;
      if (found)
        throw refused(archive, sample,
                      fmt::format("it has two images, '{}' and '{}': choose with image: {}",
                                  printable(found->extension), printable(member.extension),
                                  printable(found->extension)));
      found = &member;
    }
    if (!found)
      throw refused(
          archive, sample,
          fmt::format("it has no image ({}); its members are {}",
                      printable(config_.image.value_or("jpg, png or webp")), sample.extensions()));
    if (found->file.size > kMaxImageBytes)
      throw refused(archive, sample, fmt::format("its image has {} bytes", found->file.size));
    return found->file;
  }

  int64_t class_of(const formats::TarSample& sample, std::span<const uint8_t> bytes,
                   const std::string& archive) const {
    const auto* file = sample.find(config_.label);
    if (!file)
      throw refused(archive, sample,
                    fmt::format("it has no label ({}); its members are {}",
                                printable(config_.label), sample.extensions()));
    const auto name = fmt::format("{}: {}", archive, printable(file->name, kMaxShown));
    if (file->size > kMaxLabelBytes)
      throw webdataset_error(name, fmt::format("{} bytes are not a label", file->size));
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + file->begin,
                                file->size);
    return is_json() ? class_in_json(text, name)
                     : classes_.class_from(trimmed(text, " \t\r\n"), name);
  }

 private:
  static Error refused(const std::string& archive, const formats::TarSample& sample,
                       const std::string& why) {
    return webdataset_error(
        fmt::format("{}: sample '{}'", archive, printable(sample.key, kMaxShown)), why);
  }

  static bool is_image_extension(std::string_view extension) {
    return std::ranges::find(kImageExtensions, extension.substr(extension.rfind('.') + 1)) !=
           kImageExtensions.end();
  }

  bool is_json() const { return config_.label == "json" || config_.label.ends_with(".json"); }

  int64_t class_in_json(std::string_view text, const std::string& name) const {
    const auto json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) throw webdataset_error(name, "it is not a JSON object");
    const auto found = json.find(*config_.label_key);
    if (found == json.end()) {
      std::vector<std::string> keys;
      for (const auto& item : json.items()) keys.push_back(item.key());
      throw webdataset_error(name, fmt::format("no key '{}'{}", printable(*config_.label_key),
                                               suggest(*config_.label_key, keys)));
    }
    if (found->is_number_integer()) return classes_.verified(found->get<int64_t>(), name);
    if (found->is_string()) return classes_.class_from(found->get<std::string>(), name);
    throw webdataset_error(name,
                           fmt::format("key '{}' is neither the number nor the name of a class",
                                       printable(*config_.label_key)));
  }

  const WebDatasetConfig& config_;
  ClassNames classes_;
};

class WebDataset final : public Dataset {
 public:
  using Config = WebDatasetConfig;

  explicit WebDataset(const Config& config) : WebDataset(config, tar_archives(config.path)) {}

  int64_t size() const override { return ends_.back(); }

  std::vector<FieldLayout> layout() const override {
    return {{"image", at::kFloat, pipeline_.shape()}, {"label", at::kLong, {}}};
  }

  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    for (const auto index : request.indices)
      check(index >= 0 && index < size(), "sample index outside the dataset");
    auto* pixels = fields[0].mutable_data_ptr<float>();
    auto* labels = fields[1].mutable_data_ptr<int64_t>();
    for_each_shard(ends_, request.indices, [&](size_t number, auto rows, auto places) {
      const auto first = number == 0 ? 0 : ends_[number - 1];
      archives_.use(number, max_open_, [&](const OpenArchive& archive) {
        for (size_t i = 0; i < rows.size(); ++i) {
          const auto& image = archive.found->images[static_cast<size_t>(rows[i])];
          const auto index = first + rows[i];
          load(*archive.file, image, index, {request.seed, request.epoch, index},
               pixels + static_cast<size_t>(places[i]) * pipeline_.num_values());
          labels[places[i]] = image.label;
        }
      });
    });
  }

  Json metadata() const override {
    return config_.classes.empty() ? Json() : Json{{"classes", config_.classes}};
  }

  std::vector<std::string> warnings() const override {
    return hint_.empty() ? std::vector<std::string>() : std::vector{hint_};
  }

  SampleInfo sample_info() const override {
    SampleInfo info{.shards = ends_.size() > 1 ? ends_ : std::vector<int64_t>(),
                    .labels = [this] { return labels(); }};
    if (is_lazy() && formats::has_scheme(files_[0]))
      info.fetch_ahead = [this](const auto& shards) { formats::fetch_ahead(files_, shards); };
    return info;
  }

 private:
  struct StoredImage {
    size_t begin = 0, size = 0;  // bytes in the archive
    int64_t label = 0;
  };
  // What an archive has.
  struct Contents {
    formats::MappedFile::Identity identity;
    std::vector<StoredImage> images;
  };
  struct OpenArchive {
    std::shared_ptr<const formats::MappedFile> file;
    std::shared_ptr<const Contents> found;
  };

  WebDataset(const Config& config, TarArchives archives)
      : config_(config),
        indexer_(config_),
        pipeline_(config.images),
        files_(std::move(archives.files)),
        index_(formats::indexed_shards(files_, archives.are_all)),
        contents_(files_.size()),
        archives_([this](size_t number, SharedWork&) { return open(number); }) {
    if (is_lazy()) {
      formats::pin_versions(files_);
    } else {
      if (files_.size() > 1) formats::fetch_ahead(files_);
      for (size_t number = 0; number < files_.size(); ++number) open(number);
      note_missing_index();
    }
    int64_t largest = 0, total = 0;
    for (size_t number = 0; number < files_.size(); ++number) {
      total += is_lazy() ? index_.shards[number].samples : std::ssize(contents_[number]->images);
      ends_.push_back(total);
      if (is_lazy()) largest = std::max(largest, index_.shards[number].bytes);
    }
    max_open_ = formats::max_open_files(files_, kMaxArchives, largest);
    if (total == 0) throw webdataset_error(index_.index, "it says that the shards have no samples");
    if (!config_.limit) return;
    if (*config_.limit > total)
      throw webdataset_error(
          printable(config_.path, kMaxShown),
          fmt::format("limit {} is larger than the number of samples, {}", *config_.limit, total));
    for (auto& end : ends_) end = std::min(end, *config_.limit);
  }

  bool is_lazy() const { return !index_.shards.empty(); }

  void note_missing_index() {
    if (files_.size() < 2 || !formats::has_scheme(files_[0])) return;
    hint_ = fmt::format(
        "all shards were fetched before training, as there is no index of their numbers of samples "
        "({}): write one with lockstep-data index, and upload it to the folder of the shards",
        index_.is_other_file ? index_.index + " is another file"
                             : std::string(formats::kTarIndexName));
  }

  // Thread: any.
  OpenArchive open(size_t number) const {
    try {
      if (const auto known = contents_of(number)) return {reopen(number, known->identity), known};
      auto file = std::make_shared<const formats::MappedFile>(files_[number]);
      if (is_lazy()) verify_size(number, file->identity().size);
      auto found = std::make_shared<const Contents>(file->identity(), images_in(*file));
      if (is_lazy()) verify_count(number, std::ssize(found->images));
      const MutexLock lock(mutex_);
      contents_[number] = found;
      return {std::move(file), std::move(found)};
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Config) throw;
      throw ShardError(error.what());
    }
  }

  std::shared_ptr<const Contents> contents_of(size_t number) const {
    const MutexLock lock(mutex_);
    return contents_[number];
  }

  void verify_size(size_t number, int64_t bytes) const {
    const auto expected = index_.shards[number].bytes;
    if (expected == 0 || bytes == expected) return;
    throw webdataset_error(
        shown_path(files_[number]),
        fmt::format("it has {} bytes, but {} in {}: write this again: lockstep-data index", bytes,
                    expected, index_.index));
  }

  void verify_count(size_t number, int64_t samples) const {
    if (samples == index_.shards[number].samples) return;
    throw webdataset_error(
        shown_path(files_[number]),
        fmt::format("it has {} samples, but {} in {}: write this again: lockstep-data index",
                    samples, index_.shards[number].samples, index_.index));
  }

  std::vector<StoredImage> images_in(const formats::MappedFile& file) const {
    return file.read([&](std::span<const uint8_t> bytes) {
      std::vector<StoredImage> found;
      formats::for_each_tar_sample(bytes, file.name(), [&](const formats::TarSample& sample) {
        const auto image = indexer_.image_of(sample, file.name());
        found.push_back({image.begin, image.size, indexer_.class_of(sample, bytes, file.name())});
        const auto &first = sample.members.front().file, &last = sample.members.back().file;
        file.note_read(last.begin + last.size - first.begin, 0);
      });
      found.shrink_to_fit();
      return found;
    });
  }

  // Opens an archive that was closed after its contents were found.
  std::shared_ptr<const formats::MappedFile> reopen(
      size_t number, const formats::MappedFile::Identity& identity) const {
    return formats::MappedFile::read_again(files_[number], identity, [&] {
      auto file = std::make_shared<const formats::MappedFile>(files_[number]);
      if (file->identity() != identity)
        throw environment_error(file->name() + ": was changed while it was being read");
      return file;
    });
  }

  // Of all samples: opens the archives that were not opened yet.
  std::vector<double> labels() const {
    std::vector<double> labels;
    if (is_lazy()) formats::fetch_ahead(files_);
    for (size_t number = 0; number < files_.size() && std::ssize(labels) < size(); ++number) {
      auto found = contents_of(number);
      if (!found)
        archives_.use(number, 1, [&](const OpenArchive& archive) { found = archive.found; });
      for (const auto& image : found->images)
        if (std::ssize(labels) < size()) labels.push_back(static_cast<double>(image.label));
    }
    return labels;
  }

  void load(const formats::MappedFile& file, const StoredImage& image, int64_t sample,
            SampleRandom random, float* out) const {
    // A copy: decoders do not expect bytes that change.
    constexpr auto kHeader = formats::kTarHeaderBytes;
    std::vector<uint8_t> member;
    const auto stored = file.bytes_at(image.begin - kHeader, kHeader + image.size, member);
    if (member.empty()) member.assign(stored.begin(), stored.end());
    file.verify_unchanged();
    const auto name = printable(formats::tar_name_at(member, kHeader), kMaxShown);
    pipeline_.load(std::span(member).subspan(kHeader),
                   fmt::format("sample {} ({}: {})", sample, file.name(), name), random, out);
  }

  const Config config_;
  const SampleIndexer indexer_;
  const ImagePipeline pipeline_;
  const std::vector<std::filesystem::path> files_;
  const formats::IndexedShards index_;
  std::string hint_;
  std::vector<int64_t> ends_;  // of the archives' samples
  int64_t max_open_ = 0;
  mutable Mutex mutex_;
  // Empty: not opened yet.
  mutable std::vector<std::shared_ptr<const Contents>> contents_ GUARDED_BY(mutex_);
  mutable BlockCache<OpenArchive> archives_;
};

REGISTER_DATASET("webdataset", WebDataset, "images and labels in tar archives, as by WebDataset");

}  // namespace
}  // namespace lockstep::data
