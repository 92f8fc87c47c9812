#include "data/array_dataset.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "data/row_prefetch.h"
#include "data/sample_runs.h"
#include "data/shard_error.h"
#include "formats/path_list.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// Maximum number of mapped files kept open: below the limit of a process.
constexpr int64_t kMaxOpen = 256;

at::ScalarType scalar_type_of(formats::ElementType type) {
  switch (type) {
    case formats::ElementType::Bool: return at::kBool;
    case formats::ElementType::U8: return at::kByte;
    case formats::ElementType::I8: return at::kChar;
    case formats::ElementType::I16: return at::kShort;
    case formats::ElementType::U16:
    case formats::ElementType::I32: return at::kInt;
    case formats::ElementType::U32:
    case formats::ElementType::I64: return at::kLong;
    case formats::ElementType::F16: return at::kHalf;
    case formats::ElementType::BF16: return at::kBFloat16;
    case formats::ElementType::F32: return at::kFloat;
    case formats::ElementType::F64: return at::kDouble;
  }
  return at::kByte;
}

at::ScalarType scalar_type_of(ArrayDtype dtype) {
  constexpr std::array types = {at::kFloat, at::kDouble, at::kInt, at::kLong};
  return types.at(static_cast<size_t>(dtype));
}

bool is_floating(formats::ElementType type) { return type >= formats::ElementType::F16; }

// Calls `use` with a value of the C++ type of `type`.
template <class Use>
void with_stored_type(formats::ElementType type, const Use& use) {
  switch (type) {
    case formats::ElementType::Bool:  // any byte value
    case formats::ElementType::U8: return use(uint8_t{});
    case formats::ElementType::I8: return use(int8_t{});
    case formats::ElementType::U16: return use(uint16_t{});
    case formats::ElementType::I16: return use(int16_t{});
    case formats::ElementType::U32: return use(uint32_t{});
    case formats::ElementType::I32: return use(int32_t{});
    case formats::ElementType::I64: return use(int64_t{});
    case formats::ElementType::F16: return use(c10::Half{});
    case formats::ElementType::BF16: return use(c10::BFloat16{});
    case formats::ElementType::F32: return use(float{});
    case formats::ElementType::F64: return use(double{});
  }
}

template <class From, class To>
void convert_row(const uint8_t* row, size_t count, const ArrayFieldConfig& change, To* out) {
  const auto divisor = static_cast<To>(change.divide_by.value_or(1));
  const auto mean = static_cast<To>(change.mean.value_or(0));
  const auto deviation = static_cast<To>(change.std.value_or(1));
  const bool normalizes = change.mean.has_value();
  for (size_t i = 0; i < count; ++i) {
    From value{};
    std::memcpy(&value, row + i * sizeof(From), sizeof(From));
    out[i] = static_cast<To>(value);
  }
  if (change.divide_by)
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<To>(out[i] / divisor);
  if (normalizes)
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<To>((out[i] - mean) / deviation);
}

template <class Use>
void with_given_type(at::ScalarType type, const Use& use) {
  switch (type) {
    case at::kFloat: return use(float{});
    case at::kDouble: return use(double{});
    case at::kInt: return use(int32_t{});
    case at::kLong: return use(int64_t{});
    default: check(false, "unsupported element type of a field");
  }
}

}  // namespace

std::vector<std::filesystem::path> files_with_ending(const std::string& folder,
                                                     const std::string& ending) {
  return formats::list_files(
      folder, [&](const std::filesystem::path& file) { return file.extension() == ending; });
}

ArrayDataset::ArrayDataset(std::string name, const ArrayDatasetConfig& config, ArrayShards shards)
    : name_(std::move(name)),
      config_(config),
      path_(printable(config.path, 400)),
      files_(std::move(shards)),
      unchanged_(files_.files.size()),
      is_later_(files_.files.size()),
      open_([this](size_t number, SharedWork&) { return reopen(number); }) {
  check(!files_.files.empty(), "an array dataset must have at least one file");
  max_open_ = files_.files.size() > 1 ? formats::max_open_files(files_.files, kMaxOpen) : 1;
  if (files_.files.size() > 1) formats::pin_versions(files_.files);
  const auto is_compressed = add(0);
  if (files_.files.size() > 1) add_others(is_compressed);
  if (!config.limit) return;
  if (*config.limit > size())
    throw refused({}, fmt::format("limit {} is larger than the number of samples, {}",
                                  *config.limit, size()));
  for (auto& end : ends_) end = std::min(end, *config.limit);
}

// Those after the first. Of shards that are opened later, the size says that they have as many samples.
void ArrayDataset::add_others(bool are_compressed) {
  const auto& files = files_.files;
  const bool can_wait = formats::has_scheme(files.front()) && !are_compressed;
  std::vector<size_t> now;
  for (size_t number = 1; number < files.size(); ++number) {
    is_later_[number] =
        can_wait && formats::stored_bytes(files[number]) == formats::stored_bytes(files.front());
    if (!is_later_[number]) now.push_back(number);
  }
  formats::fetch_ahead(files, now);
  for (size_t number = 1; number < files.size(); ++number) {
    if (is_later_[number])
      ends_.push_back(ends_.back() + first_rows_);
    else
      add(number);
  }
}

// Opens a shard at the start. Returns whether it is compressed.
bool ArrayDataset::add(size_t number) {
  const auto& files = files_.files;
  const auto act = [&] { return open(number); };
  auto shard = files.size() == 1 ? act() : unchanged_.open(number, files[number], act);
  std::vector<FieldLayout> layout;
  for (const auto& field : shard.fields) layout.push_back({field.name, field.given, field.shape});
  if (number == 0) {
    layout_ = layout;
    first_rows_ = shard.size;
  }
  if (layout != layout_)
    throw refused(number, "its arrays differ in names, types or shapes from those of " +
                              printable(files.front().string(), 400));
  ends_.push_back((ends_.empty() ? 0 : ends_.back()) + shard.size);
  const auto is_compressed = shard.is_compressed;
  if (files.size() == 1) only_ = std::move(shard);
  return is_compressed;
}

// `number`: of the shard with the error.
Error ArrayDataset::refused(std::optional<size_t> number, const std::string& why) const {
  const bool names_file = number && files_.files.size() > 1;
  return config_error(
      fmt::format("dataset {}: {}: {}", name_,
                  names_file ? printable(files_.files[*number].string(), 400) : path_, why));
}

SampleInfo ArrayDataset::sample_info() const {
  SampleInfo info{.shards = ends_.size() > 1 ? ends_ : std::vector<int64_t>(),
                  .reads_whole_shards = !files_.mapped,
                  .labels = [this] { return labels(); },
                  .lengths = [this] { return numbers_of("length"); },
                  .weights = [this] { return numbers_of("weight"); }};
  if (std::ranges::find(is_later_, true) != is_later_.end())
    info.fetch_ahead = [this](const auto& chosen) { formats::fetch_ahead(files_.files, chosen); };
  return info;
}

ArrayDataset::OpenShard ArrayDataset::open(size_t number) const {
  const auto arrays = files_.open(number);
  OpenShard shard;
  shard.is_compressed = std::ranges::any_of(arrays, &formats::StoredArray::is_compressed);
  if (config_.fields.empty())
    for (const auto& array : arrays)
      shard.fields.push_back(make_field(array.name, {}, arrays, number));
  for (const auto& [field, change] : config_.fields)
    shard.fields.push_back(make_field(field, change, arrays, number));
  if (shard.fields.empty()) throw refused(number, "it has no arrays");
  const auto& first = shard.fields.front();
  shard.size = first.array.shape.front();
  for (const auto& field : shard.fields)
    if (field.array.shape.front() != shard.size)
      throw refused(number, fmt::format("'{}' has {} samples, but '{}' has {}", first.name,
                                        shard.size, field.name, field.array.shape.front()));
  return shard;
}

// Opens a shard that was closed after it was first read, or was not opened yet.
ArrayDataset::OpenShard ArrayDataset::reopen(size_t number) const {
  // The cache lets one thread at a time load a shard.
  if (only_) return *std::exchange(only_, std::nullopt);
  return of_shard([&] {
    auto shard = unchanged_.open(number, files_.files[number], [&] { return open(number); });
    verify_as_counted(number, shard);
    return shard;
  });
}

// Memory accesses depend on these, so size and time of the file are not sufficient.
void ArrayDataset::verify_as_counted(size_t number, const OpenShard& shard) const {
  const auto before = number == 0 ? 0 : ends_[number - 1];
  const auto has_rows = is_later_[number] ? shard.size == first_rows_  // `limit` can end in it
                                          : shard.size >= ends_[number] - before;
  bool same = has_rows && shard.fields.size() == layout_.size();
  for (size_t f = 0; same && f < layout_.size(); ++f)
    same = FieldLayout{shard.fields[f].name, shard.fields[f].given, shard.fields[f].shape} ==
           layout_[f];
  if (same) return;
  if (is_later_[number])
    throw refused(number, "it is as large as " + printable(files_.files.front().string(), 400) +
                              ", but its arrays differ in names, types or shapes");
  throw environment_error(fmt::format("{}: was changed while it was being read",
                                      printable(files_.files[number].string(), 400)));
}

ArrayDataset::Field ArrayDataset::make_field(const std::string& name,
                                             const ArrayFieldConfig& change,
                                             const std::vector<formats::StoredArray>& arrays,
                                             size_t shard) const {
  const auto wanted = change.from.value_or(name);
  const auto found = std::ranges::find(arrays, wanted, &formats::StoredArray::name);
  if (found == arrays.end()) {
    std::vector<std::string> names;
    for (const auto& array : arrays) names.push_back(array.name);
    throw refused(shard, fmt::format("no array '{}'{}", printable(wanted), suggest(wanted, names)));
  }
  Field field{.name = name, .array = *found, .change = change, .given = at::kByte};
  const auto& array = field.array;
  if (array.shape.empty())
    throw refused(shard, fmt::format("array '{}' is a scalar: samples need a first dimension",
                                     printable(wanted)));
  field.shape.assign(array.shape.begin() + 1, array.shape.end());
  field.row_elements = *formats::num_elements(field.shape);
  if (change.mean.has_value() != change.std.has_value())
    throw refused(shard, fmt::format("field '{}': set both mean and std", printable(name)));
  const bool computes = change.divide_by || change.mean;
  field.given = change.dtype ? scalar_type_of(*change.dtype)
                : computes   ? at::kFloat
                             : scalar_type_of(array.type);
  const bool to_integers = c10::isIntegralType(field.given, true);
  if (computes && to_integers)
    throw refused(shard,
                  fmt::format("field '{}': divide_by, mean and std need a dtype of float32 or "
                              "float64",
                              printable(name)));
  const bool narrows = field.given == at::kInt && (array.type == formats::ElementType::I64 ||
                                                   array.type == formats::ElementType::U32);
  if (change.dtype && to_integers && (is_floating(array.type) || narrows))
    throw refused(shard, fmt::format("field '{}': {} would lose precision as {}", printable(name),
                                     name_of(array.type), name_of(*change.dtype)));
  const bool widens =
      array.type == formats::ElementType::U16 || array.type == formats::ElementType::U32;
  if (array.type == formats::ElementType::U8 && field.given == at::kFloat)
    field.scaling.emplace(ByteScale{change.divide_by, change.mean, change.std});
  field.is_copy = !computes && !widens && field.given == scalar_type_of(array.type);
  return field;
}

std::vector<FieldLayout> ArrayDataset::layout() const { return layout_; }

void ArrayDataset::verify_unchanged(const OpenShard& shard) {
  const formats::MappedFile* verified = nullptr;  // all tensors of a safetensors file share one
  for (const auto& field : shard.fields) {
    if (field.array.mapped && field.array.mapped.get() != verified)
      field.array.mapped->verify_unchanged();
    verified = field.array.mapped.get();
  }
}

void ArrayDataset::note_read(const Field& field, size_t rows) {
  const auto row_bytes = field.row_elements * bytes_of(field.array.type);
  if (field.array.mapped) field.array.mapped->note_read(rows * row_bytes, rows);
}

// Copies row rows[i] of the field to sample places[i] of the tensor.
void ArrayDataset::gather(const Field& field, std::span<const int64_t> rows,
                          std::span<const int64_t> places, const at::Tensor& tensor) {
  const auto row_bytes = field.row_elements * bytes_of(field.array.type);
  const auto* base = field.array.bytes.data();
  if (field.is_copy) {
    auto* all = static_cast<uint8_t*>(tensor.data_ptr());
    for (size_t i = 0; i < rows.size(); ++i) {
      prefetch_row(base, row_bytes, rows, i);
      auto* out = all + static_cast<size_t>(places[i]) * row_bytes;
      std::memcpy(out, base + static_cast<size_t>(rows[i]) * row_bytes, row_bytes);
      if (field.array.type == formats::ElementType::Bool)
        std::transform(out, out + row_bytes, out, [](uint8_t byte) { return byte != 0; });
    }
    return;
  }
  if (field.scaling) {
    auto* all = tensor.data_ptr<float>();
    for (size_t i = 0; i < rows.size(); ++i) {
      prefetch_row(base, row_bytes, rows, i);
      field.scaling->apply({base + static_cast<size_t>(rows[i]) * row_bytes, row_bytes},
                           all + static_cast<size_t>(places[i]) * field.row_elements);
    }
    return;
  }
  with_given_type(field.given, [&](auto to) {
    auto* all = tensor.data_ptr<decltype(to)>();
    with_stored_type(field.array.type, [&](auto from) {
      for (size_t i = 0; i < rows.size(); ++i) {
        prefetch_row(base, row_bytes, rows, i);
        convert_row<decltype(from)>(base + static_cast<size_t>(rows[i]) * row_bytes,
                                    field.row_elements, field.change,
                                    all + static_cast<size_t>(places[i]) * field.row_elements);
      }
    });
  });
}

void ArrayDataset::fill(const SampleRequest& request, std::span<const at::Tensor> tensors) const {
  for (const auto index : request.indices)
    check(index >= 0 && index < size(), "sample index outside the dataset");
  for_each_shard(ends_, request.indices, [&](size_t number, auto rows, auto places) {
    const auto keep = files_.mapped ? max_open_ : request.nearby_groups;
    open_.use(number, keep, [&](const OpenShard& shard) {
      for (size_t f = 0; f < shard.fields.size(); ++f)
        gather(shard.fields[f], rows, places, tensors[f]);
      verify_unchanged(shard);
      for (const auto& field : shard.fields) note_read(field, rows.size());
    });
  });
}

// Where shards are opened later, an order that needs all of them waits for them here.
std::vector<double> ArrayDataset::labels() const {
  const bool are_later = std::ranges::find(is_later_, true) != is_later_.end();
  if (are_later) formats::fetch_ahead(files_.files);
  auto numbers = numbers_of("label");
  if (are_later && numbers.empty())
    for (size_t number = 0; number < ends_.size(); ++number)
      open_.use(number, 1, [](const OpenShard&) {});
  return numbers;
}

// One number per sample; empty if there is no scalar field of this name.
std::vector<double> ArrayDataset::numbers_of(const std::string& field_name) const {
  const auto field = std::ranges::find(layout_, field_name, &FieldLayout::name);
  if (field == layout_.end() || !field->shape.empty()) return {};
  const auto f = static_cast<size_t>(field - layout_.begin());
  std::vector<double> all(static_cast<size_t>(size()));
  for (size_t number = 0; number < ends_.size(); ++number) {
    const auto begin = number == 0 ? 0 : ends_[number - 1];
    open_.use(number, 1, [&](const OpenShard& shard) {
      const auto& stored = shard.fields[f];
      with_stored_type(stored.array.type, [&](auto from) {
        convert_row<decltype(from)>(stored.array.bytes.data(),
                                    static_cast<size_t>(ends_[number] - begin), stored.change,
                                    all.data() + begin);
      });
      verify_unchanged(shard);
    });
  }
  return all;
}

}  // namespace lockstep::data
