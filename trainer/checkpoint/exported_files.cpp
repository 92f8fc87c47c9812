// What a checkpoint contains for other programs (Model::exported_files()).
#include <fmt/format.h>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "lockstep/named_tensors.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/safetensors.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

// The tensors of the model in `directory`, mapped.
NamedTensors saved_model(const fs::path& directory, const nlohmann::ordered_json& files) {
  NamedTensors tensors;
  for (const auto& item : files.items())
    if (item.key().starts_with("model"))
      for (auto& tensor : read_safetensors(directory / item.key()))
        tensors.push_back(std::move(tensor));
  return tensors;
}

}  // namespace

void write_exported_files(const fs::path& directory, const ExportedFiles& exported,
                          const nlohmann::ordered_json& files) {
  for (const auto& file : exported.copies)
    write_file_durably(directory / file.filename(), read_file(file));
  for (const auto& [name, content] : exported.texts) write_file_durably(directory / name, content);
  if (exported.tensors.empty()) return;
  const auto saved = saved_model(directory, files);
  for (const auto& [file, names] : exported.tensors) {
    NamedTensors tensors;
    for (const auto& [in_model, in_file] : names) {
      const auto* const tensor = find_tensor(saved, in_model);
      check(tensor != nullptr, "an exported tensor is not in the model");
      tensors.emplace_back(in_file, *tensor);
    }
    write_safetensors(directory / file, tensors);
  }
}

}  // namespace lockstep::trainer
