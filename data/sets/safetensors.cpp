// Dataset "safetensors": the tensors of a safetensors file or of a folder of them, mapped, so they
// may be larger than memory. Fields: one per tensor, [B, ...].
#include "formats/safetensors_header.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "core/printable.h"
#include "data/array_dataset.h"
#include "formats/path_list.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

struct SafetensorsConfig : ArrayDatasetConfig {};

template <class V>
void fields(V& v, SafetensorsConfig& c) {
  v("path", c.path, "a .safetensors file, or a folder of them (shards)", required());
  v("fields", c.fields,
    "fields of a batch: field: {from: tensor, dtype, divide_by, mean, std} (default: every tensor, "
    "unchanged)");
  v("limit", c.limit, "use only the first N samples", at_least(1));
}

constexpr std::array<std::pair<const char*, formats::ElementType>, 12> kSafetensorsTypes = {
    {{"F64", formats::ElementType::F64},
     {"F32", formats::ElementType::F32},
     {"F16", formats::ElementType::F16},
     {"BF16", formats::ElementType::BF16},
     {"I64", formats::ElementType::I64},
     {"I32", formats::ElementType::I32},
     {"U32", formats::ElementType::U32},
     {"I16", formats::ElementType::I16},
     {"U16", formats::ElementType::U16},
     {"I8", formats::ElementType::I8},
     {"U8", formats::ElementType::U8},
     {"BOOL", formats::ElementType::Bool}}};

std::vector<formats::StoredArray> map_tensors(const std::filesystem::path& path) {
  const auto file = std::make_shared<const formats::MappedFile>(path);
  std::vector<formats::StoredArray> arrays;
  const auto entries = file->read([&](std::span<const uint8_t> bytes) {
    return formats::parse_safetensors(bytes, file->name(), ErrorKind::Config);
  });
  for (const auto& entry : entries) {
    formats::StoredArray array{.name = entry.name, .shape = entry.shape, .mapped = file};
    array.bytes = file->bytes().subspan(entry.begin, entry.end - entry.begin);
    for (const auto& [dtype, type] : kSafetensorsTypes)
      if (entry.dtype == dtype) array.type = type;
    arrays.push_back(std::move(array));
  }
  return arrays;
}

ArrayShards safetensors_shards(const SafetensorsConfig& config) {
  std::vector<std::filesystem::path> files = {formats::without_options(config.path)};
  if (formats::is_folder(config.path)) files = files_with_ending(config.path, ".safetensors");
  if (files.empty())
    throw config_error(fmt::format("dataset safetensors: {} has no *.safetensors files",
                                   printable(config.path, 400)));
  return {files, [files](size_t number) { return map_tensors(files[number]); }, true};
}

class SafetensorsDataset final : public ArrayDataset {
 public:
  using Config = SafetensorsConfig;
  explicit SafetensorsDataset(const Config& config)
      : ArrayDataset("safetensors", config, safetensors_shards(config)) {}
};

REGISTER_DATASET("safetensors", SafetensorsDataset, "the tensors of a safetensors file");

}  // namespace
}  // namespace lockstep::data
