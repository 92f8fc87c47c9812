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
#include "data/shard_error.h"
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
        files_(std::move(files), true),
        contents_(files_.count()) {
    for (size_t number = 0; number < files_.count(); ++number)
      is_lazy_ &= files_.rows(number).has_value();
    if (!is_lazy_) files_.fetch_all_ahead();
    if (!files_.all().columns().empty()) verify_indexed();
    // One is opened at the start, to report what is wrong with it; not of a store, which would send all of it.
    bool is_one_open = is_lazy_ && formats::has_scheme(files_.path(0));
    int64_t total = 0;
    for (size_t number = 0; number < files_.count(); ++number) {
      int64_t rows = files_.rows(number).value_or(0);
      if (!is_lazy_ || rows == 0 || !is_one_open) {  // an empty one is not opened later
        const auto file = files_.open(number);
        const auto found = contents_of(number, *file);
        rows = std::ssize(found->labels);
        if (rows > 0 && !is_one_open)  // reports a wrong type
          file->read_bytes(found->place_of(0), config_.image);
      }
      is_one_open |= rows > 0;
      ends_.push_back(total += rows);
    }
    const auto path = printable(config.path, 400);
    if (total == 0) throw config_error(path + ": it has no rows");
    if (!config.limit) return;
    if (*config.limit > total)
      throw config_error(fmt::format("{}: limit {} is larger than the number of rows, {}", path,
                                     *config.limit, total));
    for (auto& end : ends_) end = std::min(end, *config.limit);
  }

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
      use(number, [&](const formats::ColumnarFile& file, const Contents& contents) {
        for (size_t i = 0; i < rows.size(); ++i) {
          const auto sample = first + rows[i];
          const auto bytes = file.read_bytes(contents.place_of(rows[i]), config_.image);
          const auto name =
              fmt::format("sample {} ({}: row {})", sample, name_of(number), rows[i] + 1);
          pipeline_.load(bytes, name, {request.seed, request.epoch, sample},
                         pixels + static_cast<size_t>(places[i]) * pipeline_.num_values());
          labels[places[i]] = contents.labels[static_cast<size_t>(rows[i])];
        }
      });
    });
  }

  Json metadata() const override {
    return config_.classes.empty() ? Json() : Json{{"classes", config_.classes}};
  }

  SampleInfo sample_info() const override {
    SampleInfo info{.shards = ends_.size() > 1 ? ends_ : std::vector<int64_t>(),
                    .labels = [this] { return labels(); }};
    if (is_lazy_ && formats::has_scheme(files_.path(0)))
      info.fetch_ahead = [this](const auto& shards) { files_.fetch_ahead(shards); };
    return info;
  }

 private:
  // What a file has.
  struct Contents {
    std::vector<int64_t> labels;
    std::vector<int64_t> group_ends;  // of its row groups

    formats::RowPlace place_of(int64_t row) const {
      const auto after = std::ranges::upper_bound(group_ends, row);
      const auto group = static_cast<size_t>(after - group_ends.begin());
      return {group, row - (group == 0 ? 0 : group_ends[group - 1])};
    }
  };

  // Calls act(file, contents). Throws ShardError if the file is not usable.
  template <class Act>
  void use(size_t number, const Act& act) const {
    bool is_usable = false;
    try {
      files_.use(number, [&](const formats::ColumnarFile& file) {
        const auto found = contents_of(number, file);
        is_usable = true;
        act(file, *found);
      });
    } catch (const Error& error) {
      if (is_usable || error.kind() != ErrorKind::Config) throw;
      throw ShardError(error.what());
    }
  }

  std::string name_of(size_t number) const { return printable(files_.path(number).string(), 400); }
  Error packed_error(size_t number) const {
    return config_error(name_of(number) +
                        ": it is compressed, so single images cannot be read: write it without "
                        "compression; images are compressed already");
  }

  // What an index says of all files.
  void verify_indexed() const {
    using formats::ColumnKind;
    std::vector<std::string> names;
    for (const auto& column : files_.all().columns()) names.push_back(column.name);
    formats::used_columns({.columns = {config_.image, config_.label}}, names, name_of(0));
    for (const auto& [name, kind, encoding] : files_.all().columns()) {
      const auto refused = [&](const char* valid) {
        return config_error(fmt::format("{}: column '{}' is {}, not {}", name_of(0),
                                        printable(name), printable(encoding), valid));
      };
      if (name == config_.image && kind != ColumnKind::Bytes) throw refused("jpeg, png or bytes");
      if (name == config_.label && kind != ColumnKind::Numbers && kind != ColumnKind::Texts)
        throw refused("a number or str");
    }
    for (size_t number = 0; number < files_.count(); ++number)
      if (files_.all().files()[number].is_packed) throw packed_error(number);
  }

  // Read once.
  std::shared_ptr<const Contents> contents_of(size_t number,
                                              const formats::ColumnarFile& file) const {
    {
      const MutexLock lock(mutex_);
      if (contents_[number]) return contents_[number];
    }
    const auto name = name_of(number);
    formats::used_columns({.columns = {config_.image, config_.label}}, file.columns(), name);
    if (!file.has_row_access()) throw packed_error(number);
    auto found = std::make_shared<Contents>();
    const auto rows = file.row_groups();
    for (size_t group = 0; group < rows.size(); ++group) {
      auto& ends = found->group_ends;
      ends.push_back((ends.empty() ? 0 : ends.back()) + rows[group]);
      if (rows[group] > 0) add_labels(file.read(group, {config_.label}), found->labels);
    }
    // That of MDS's index, by which the samples were counted.
    if (const auto counted = files_.rows(number); counted && *counted != std::ssize(found->labels))
      throw config_error(fmt::format("{}: it has {} rows, but {} in its index", name,
                                     found->labels.size(), *counted));
    const MutexLock lock(mutex_);
    return contents_[number] = std::move(found);
  }

  // Of all samples: opens the files that were not opened yet.
  std::vector<double> labels() const {
    std::vector<double> labels;
    if (is_lazy_) files_.fetch_all_ahead();
    for (size_t number = 0; number < files_.count() && std::ssize(labels) < size(); ++number)
      use(number, [&](const formats::ColumnarFile&, const Contents& contents) {
        for (const auto label : contents.labels)
          if (std::ssize(labels) < size()) labels.push_back(static_cast<double>(label));
      });
    return labels;
  }

  void add_labels(const formats::DataTable& table, std::vector<int64_t>& labels) const {
    const auto& column = table.column(config_.label);
    for (size_t row = 0; row < table.rows; ++row) {
      const auto where = [&] {
        return fmt::format("{}: column '{}'", table.where(row), printable(config_.label));
      };
      if (column.is_missing(row)) throw config_error(where() + " has no value");
      if (column.is_text) {
        labels.push_back(
            names_.class_from(column.words[static_cast<size_t>(column.codes[row])], where()));
        continue;
      }
      const auto number = column.numbers[row];
      if (number != std::floor(number) || std::abs(number) > 1e9)
        throw config_error(fmt::format("{} is {}, not a class", where(), number));
      labels.push_back(names_.verified(static_cast<int64_t>(number), where()));
    }
  }

  const ColumnImagesConfig config_;
  const ClassNames names_;
  const ImagePipeline pipeline_;
  OpenFiles files_;
  bool is_lazy_ = true;        // the numbers of rows are known
  std::vector<int64_t> ends_;  // of the files' samples
  mutable Mutex mutex_;
  // Empty: not opened yet.
  mutable std::vector<std::shared_ptr<const Contents>> contents_ GUARDED_BY(mutex_);
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
