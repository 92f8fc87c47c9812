// Datasets "arrow_images" and "mds_images": encoded images and labels in columns of Arrow files, as
// in Hugging Face's datasets, and of MDS shards. The files are mapped, so they may be larger than
// memory. Fields: "image" float32 [B, 3, H, W], pixel / 255 after the transforms, normalized if
// configured; "label" int64 [B].
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/printable.h"
#include "data/images/image_pipeline.h"
#include "data/sample_runs.h"
#include "data/sets/class_names.h"
#include "data/sets/open_files.h"
#include "formats/mds/mds_file.h"
#include "formats/table/saved_dataset.h"
#include "formats/table/table_encoding.h"
#include "lockstep/dataset.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

struct ColumnImagesConfig {
  std::string path, image = "image", label = "label";
  std::vector<std::string> classes;
  ImageConfig images;
  std::optional<int64_t> limit;
};

struct ArrowImagesConfig : ColumnImagesConfig {};
struct MdsImagesConfig : ColumnImagesConfig {};

template <class V>
void image_fields(V& v, ColumnImagesConfig& c) {
  v("label", c.label, "the column of labels: the numbers or the names of classes");
  v("classes", c.classes,
    "names of the classes in the order of their numbers; needed if labels are names");
  fields(v, c.images);
  v("limit", c.limit, "use only the first N samples", at_least(1));
}

template <class V>
void fields(V& v, ArrowImagesConfig& c) {
  v("path", c.path,
    "a file of Arrow's IPC file or stream format, a folder of *.arrow, *.feather and *.ipc files, "
    "or a folder of Dataset.save_to_disk()",
    required());
  v("image", c.image,
    "the column of encoded images: binary, or a structure with a binary field 'bytes'");
  image_fields(v, c);
}

template <class V>
void fields(V& v, MdsImagesConfig& c) {
  v("path", c.path, "the directory of the shards and their index.json", required());
  v("image", c.image, "the column of encoded images: jpeg, png or bytes");
  image_fields(v, c);
}

class ColumnImages : public Dataset {
 public:
  ColumnImages(const std::string& dataset, const ColumnImagesConfig& config,
               formats::PartitionedFiles files)
      : config_(config),
        names_(dataset, config.classes),
        pipeline_(config.images),
        files_(std::move(files), true) {
    for (size_t number = 0; number < files_.count(); ++number) {
      add_samples(*files_.add(), printable(files_.path(number).string(), 400));
      ends_.push_back(std::ssize(labels_));
    }
    const auto path = printable(config.path, 400);
    if (labels_.empty()) throw config_error(path + ": it has no rows");
    if (!config.limit) return;
    if (*config.limit > size())
      throw config_error(fmt::format("{}: limit {} is larger than the number of rows, {}", path,
                                     *config.limit, size()));
    labels_.resize(static_cast<size_t>(*config.limit));
    for (auto& end : ends_) end = std::min(end, *config.limit);
  }

  int64_t size() const override { return std::ssize(labels_); }

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
      files_.use(number, [&](const formats::ColumnarFile& file) {
        for (size_t i = 0; i < rows.size(); ++i) {
          const auto sample = first + rows[i];
          const auto bytes = file.read_bytes(place_of(number, rows[i]), config_.image);
          const auto name = fmt::format("sample {} ({}: row {})", sample,
                                        printable(files_.path(number).string(), 400), rows[i] + 1);
          pipeline_.load(bytes, name, {request.seed, request.epoch, sample},
                         pixels + static_cast<size_t>(places[i]) * pipeline_.num_values());
          labels[places[i]] = labels_[static_cast<size_t>(sample)];
        }
      });
    });
  }

  Json metadata() const override {
    return config_.classes.empty() ? Json() : Json{{"classes", config_.classes}};
  }

  SampleInfo sample_info() const override {
    return {.shards = ends_.size() > 1 ? ends_ : std::vector<int64_t>(),
            .labels = [this] { return std::vector<double>(labels_.begin(), labels_.end()); }};
  }

 private:
  void add_samples(const formats::ColumnarFile& file, const std::string& name) {
    formats::used_columns({.columns = {config_.image, config_.label}}, file.columns(), name);
    if (!file.has_row_access())
      throw config_error(name +
                         ": it is compressed, so single images cannot be read: write it without "
                         "compression; images are compressed already");
    std::vector<int64_t> ends;
    const auto rows = file.row_groups();
    for (size_t group = 0; group < rows.size(); ++group) {
      ends.push_back((ends.empty() ? 0 : ends.back()) + rows[group]);
      if (rows[group] == 0) continue;
      if (labels_.empty()) file.read_bytes({group, 0}, config_.image);  // reports a wrong type
      add_labels(file.read(group, {config_.label}));
    }
    group_ends_.push_back(std::move(ends));
  }

  void add_labels(const formats::DataTable& table) {
    const auto& column = table.column(config_.label);
    for (size_t row = 0; row < table.rows; ++row) {
      const auto where = [&] {
        return fmt::format("{}: column '{}'", table.where(row), printable(config_.label));
      };
      if (column.is_missing(row)) throw config_error(where() + " has no value");
      if (column.is_text) {
        labels_.push_back(
            names_.class_from(column.words[static_cast<size_t>(column.codes[row])], where()));
        continue;
      }
      const auto number = column.numbers[row];
      if (number != std::floor(number) || std::abs(number) > 1e9)
        throw config_error(fmt::format("{} is {}, not a class", where(), number));
      labels_.push_back(names_.verified(static_cast<int64_t>(number), where()));
    }
  }

  formats::RowPlace place_of(size_t number, int64_t row) const {
    const auto& ends = group_ends_[number];
    const auto group = static_cast<size_t>(std::ranges::upper_bound(ends, row) - ends.begin());
    return {group, row - (group == 0 ? 0 : ends[group - 1])};
  }

  const ColumnImagesConfig config_;
  const ClassNames names_;
  const ImagePipeline pipeline_;
  OpenFiles files_;
  std::vector<int64_t> labels_;
  std::vector<int64_t> ends_;                     // of the files' samples
  std::vector<std::vector<int64_t>> group_ends_;  // of the row groups, for each file
};

class ArrowImages final : public ColumnImages {
 public:
  using Config = ArrowImagesConfig;
  explicit ArrowImages(const Config& config)
      : ColumnImages("arrow_images", config,
                     {formats::arrow_files(config.path), formats::open_arrow_file}) {}
};

class MdsImages final : public ColumnImages {
 public:
  using Config = MdsImagesConfig;
  explicit MdsImages(const Config& config)
      : ColumnImages("mds_images", config, formats::mds_shards(config.path)) {}
};

REGISTER_DATASET("arrow_images", ArrowImages,
                 "images and labels in Arrow files, as of Hugging Face's datasets");
REGISTER_DATASET("mds_images", MdsImages, "images and labels in shards of MosaicML Streaming");

}  // namespace
}  // namespace lockstep::data
