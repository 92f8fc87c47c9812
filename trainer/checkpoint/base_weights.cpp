#include "trainer/checkpoint/base_weights.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <set>
#include <utility>

#include "core/printable.h"
#include "core/system/crc32c.h"
#include "core/system/durable_file.h"
#include "formats/safetensors_index.h"
#include "lockstep/error.h"
#include "trainer/checkpoint/safetensors.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

// The tensors of all files of an index; each must be in the file that the index names.
NamedTensors weights_of_index(const fs::path& path) {
  const auto file_of =
      formats::parse_safetensors_index(read_file(path), printable(path.string(), 400));
  std::set<std::string> files;
  for (const auto& [tensor, file] : file_of) files.insert(file);
  NamedTensors tensors;
  for (const auto& file : files)
    for (auto& item : read_safetensors(path.parent_path() / file)) {
      const auto expected = file_of.find(item.first);
      if (expected == file_of.end() || expected->second != file)
        throw environment_error(fmt::format("{} contains '{}', which {} does not list there", file,
                                            printable(item.first, 200), path.string()));
      tensors.push_back(std::move(item));
    }
  return tensors;
}

// Tensors are freed one by one, and with them the memory of their pages.
void verify_base(const BaseWeights& base, const fs::path& path) {
  const auto refuse = [&](const std::string& name, const char* problem) {
    throw config_error(fmt::format(
        "base model {}: '{}' {} since the checkpoint was written, which contains only what was "
        "trained: put the original file there",
        printable(path.string(), 400), printable(name, 200), problem));
  };
  size_t num_found = 0;
  std::set<std::string> names;
  for (auto& [name, tensor] : read_weights(path)) {
    const auto expected = base.checksums.find(name);
    if (expected == base.checksums.end()) continue;
    if (checksum_of(std::exchange(tensor, {})) != expected->second) refuse(name, "has changed");
    names.insert(name);
    ++num_found;
  }
  for (const auto& [name, checksum] : base.checksums)
    if (!names.contains(name)) refuse(name, "has been removed");
}

}  // namespace

nlohmann::ordered_json describe_base(const BaseWeights& base) {
  return {{"path", base.path}, {"checksums", base.checksums}};
}

BaseWeights parse_base(const nlohmann::ordered_json& json) {
  return {.path = json.at("path"), .checksums = json.at("checksums")};
}

NamedTensors read_weights(const fs::path& path) {
  return path.string().ends_with(formats::kSafetensorsIndexEnding) ? weights_of_index(path)
                                                                   : read_safetensors(path);
}

uint32_t checksum_of(const at::Tensor& tensor) {
  return crc32c(tensor.const_data_ptr(), tensor.nbytes());
}

NamedTensors read_base(const BaseWeights& base) {
  try {
    verify_base(base, base.path);
    auto tensors = read_weights(base.path);
    std::erase_if(tensors, [&](const auto& item) { return !base.has(item.first); });
    return tensors;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Config) throw;
    throw config_error(
        fmt::format("base model: {}; the checkpoint contains only what was trained: put the "
                    "original file there",
                    error.what()));
  }
}

}  // namespace lockstep::trainer
