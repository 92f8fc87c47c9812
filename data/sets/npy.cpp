// Dataset "npy": NumPy arrays in a .npz archive or in the .npy files of a folder. .npy files are
// mapped, so they may be larger than memory; an archive is decompressed into memory; the archives
// of a folder are shards, of which a bounded number is in memory. Fields: one per array, [B, ...],
// named like the array or the file.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/printable.h"
#include "data/array_dataset.h"
#include "formats/file_kind.h"
#include "formats/npy_file.h"
#include "formats/path_list.h"
#include "formats/zip_file.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxMemberBytes = uint64_t{1} << 40;

struct NpyConfig : ArrayDatasetConfig {};

template <class V>
void fields(V& v, NpyConfig& c) {
  v("path", c.path,
    "an .npz file, a folder of them (shards), or a folder of .npy files (one per field)",
    required());
  v("fields", c.fields,
    "fields of a batch: field: {from: array, dtype, divide_by, mean, std} (default: every array, "
    "unchanged)");
  v("limit", c.limit, "use only the first N samples", at_least(1));
}

std::string without_ending(const std::string& name) {
  return name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name;
}

// Whether the config selects this array; all if it names none.
bool is_wanted(const NpyConfig& config, const std::string& array) {
  return config.fields.empty() || std::ranges::any_of(config.fields, [&](const auto& field) {
           return field.second.from.value_or(field.first) == array;
         });
}

void refuse_single_array(const formats::MappedFile& file) {
  const std::string_view begin(reinterpret_cast<const char*>(file.bytes().data()),
                               std::min<size_t>(file.bytes().size(), 256));
  if (begin.starts_with("\x93NUMPY"))
    throw config_error(fmt::format(
        "{}: it is a single array: set path to its folder (each .npy file is a field), or "
        "put all arrays into one .npz file with numpy.savez",
        file.name()));
  if (const auto other = formats::other_file_kind(begin); other && !begin.starts_with("PK"))
    throw config_error(
        fmt::format("{}: it is {}, not .npz; {}", file.name(), other->name, other->remedy));
}

std::vector<formats::StoredArray> unpack_npz(const NpyConfig& config,
                                             const formats::MappedFile& file) {
  refuse_single_array(file);
  const formats::ZipFile zip(file.bytes(), file.name());
  std::vector<formats::StoredArray> arrays;
  const auto members = zip.members();
  for (const auto& member : members)
    if (member.ends_with("/data.pkl"))
      throw config_error(
          fmt::format("{}: it was saved by torch.save; save the tensors with numpy.savez(path, "
                      "x=x.numpy(), ...) or safetensors.torch.save_file instead",
                      file.name()));
  for (size_t i = 0; i < members.size(); ++i) {
    const auto name = without_ending(members[i]);
    if (!is_wanted(config, name)) {
      arrays.push_back({.name = name, .is_compressed = !zip.is_stored(i)});
      continue;
    }
    auto content = std::make_shared<std::vector<uint8_t>>(zip.read(i, kMaxMemberBytes));
    auto array = formats::parse_npy(*content, file.name() + ": " + printable(members[i]));
    array.name = name;
    array.is_compressed = !zip.is_stored(i);
    if (!array.memory) array.memory = std::move(content);
    arrays.push_back(std::move(array));
  }
  return arrays;
}

std::vector<formats::StoredArray> read_npz(const NpyConfig& config, const fs::path& path) {
  const formats::MappedFile file(path);
  return file.read([&](std::span<const uint8_t>) { return unpack_npz(config, file); });
}

std::vector<formats::StoredArray> map_npy_files(const NpyConfig& config) {
  std::vector<formats::StoredArray> arrays;
  const auto files = files_with_ending(config.path, ".npy");
  formats::fetch_ahead(files);
  for (const auto& path : files) {
    const auto name = path.stem().string();
    if (!is_wanted(config, name)) {
      arrays.push_back({.name = name});
      continue;
    }
    auto file = std::make_shared<const formats::MappedFile>(path);
    auto array = file->read(
        [&](std::span<const uint8_t> bytes) { return formats::parse_npy(bytes, file->name()); });
    array.name = name;
    if (!array.memory) array.mapped = std::move(file);
    arrays.push_back(std::move(array));
  }
  return arrays;
}

ArrayShards npy_shards(const NpyConfig& config) {
  std::vector<fs::path> archives = {formats::without_options(config.path)};
  if (formats::is_folder(config.path)) archives = files_with_ending(config.path, ".npz");
  if (archives.empty())
    return {{config.path}, [config](size_t) { return map_npy_files(config); }, true};
  if (archives.front() != formats::without_options(config.path) &&
      !files_with_ending(config.path, ".npy").empty())
    throw config_error(fmt::format(
        "dataset npy: {} has .npy files (one per field) and .npz files (one per shard); "
        "keep them in separate directories",
        printable(config.path, 400)));
  return {archives, [config, archives](size_t i) { return read_npz(config, archives[i]); }, false};
}

class NpyDataset final : public ArrayDataset {
 public:
  using Config = NpyConfig;
  explicit NpyDataset(const Config& config) : ArrayDataset("npy", config, npy_shards(config)) {}
};

REGISTER_DATASET("npy", NpyDataset, "NumPy arrays, in an .npz file or a folder of .npy files");

}  // namespace
}  // namespace lockstep::data
