// What a checkpoint contains for other programs (Model::exported_files()).
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "core/system/durable_file.h"
#include "core/system/file_descriptor.h"
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

void copy_one(const fs::path& from, const fs::path& to, const OnBytes& on_bytes) {
  constexpr size_t kChunk = size_t{8} << 20;
  FileDescriptor in(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!in.is_open()) throw errno_error(fmt::format("cannot read {}", from.string()));
  FileDescriptor out(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!out.is_open()) throw errno_error(fmt::format("cannot create {}", to.string()));
  std::string chunk(kChunk, '\0');
  for (;;) {
    const auto bytes = ::read(in.get(), chunk.data(), chunk.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) throw errno_error(fmt::format("cannot read {}", from.string()));
    if (bytes == 0) break;
    write_all(out.get(), std::string_view(chunk).substr(0, static_cast<size_t>(bytes)), to);
    if (on_bytes) on_bytes(static_cast<uint64_t>(bytes));
  }
  if (::fsync(out.get()) != 0) throw errno_error(fmt::format("cannot sync {}", to.string()));
}

}  // namespace

void copy_files(const std::vector<fs::path>& files, const fs::path& directory,
                const OnBytes& on_bytes) {
  for (const auto& file : files) copy_one(file, directory / file.filename(), on_bytes);
}

void write_exported_files(const fs::path& directory, const ExportedFiles& exported,
                          const nlohmann::ordered_json& files) {
  copy_files(exported.copies, directory);
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
