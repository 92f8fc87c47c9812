#include "trainer/commands/export/checkpoint_export.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "core/config/size_text.h"
#include "core/printable.h"
#include "core/system/durable_file.h"
#include "core/system/file_descriptor.h"
#include "core/system/new_name.h"
#include "formats/safetensors_index.h"
#include "launch/protocol/token.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"
#include "models/decoder/lora.h"
#include "models/hf/hf_directory.h"
#include "models/package_reference.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/commands/export/graph_export.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNameBytes = 8;

bool has_file(const fs::path& directory, const char* name) {
  std::error_code ignored;
  return fs::is_regular_file(directory / name, ignored);
}

// Shows how much is done, every few seconds.
class ExportProgress {
 public:
  ExportProgress(ShowProgress show, uint64_t total) : show_(std::move(show)), total_(total) {}
  void add(uint64_t bytes) {
    constexpr std::chrono::seconds kBetween{2};
    done_ += bytes;
    if (!show_ || std::chrono::steady_clock::now() < next_) return;
    next_ = std::chrono::steady_clock::now() + kBetween;
    show_(fmt::format("{} of {} written", size_text(done_), size_text(total_)));
  }

 private:
  ShowProgress show_;
  uint64_t total_, done_ = 0;
  std::chrono::steady_clock::time_point next_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(2);
};

fs::path absolute_target(const fs::path& out) {
  auto target = fs::absolute(out).lexically_normal();
  return target.has_filename() ? target : target.parent_path();
}

// Throws Config unless the directory is missing or empty.
fs::path verified_directory(const fs::path& out) {
  auto target = absolute_target(out);
  const auto text = printable(out.string(), 300);
  std::error_code error;
  if (!fs::exists(target, error)) return target;
  if (!fs::is_directory(target, error))
    throw config_error(fmt::format("--out: '{}' is not a directory", text));
  if (!fs::is_empty(target, error) || error)
    throw config_error(fmt::format("--out: '{}' is not empty", text));
  return target;
}

// Throws Config unless the name of the file has the ending, and it does not exist.
fs::path verified_file(const fs::path& out, ExportFormat format) {
  const auto* const ending = format == ExportFormat::Safetensors ? ".safetensors" : ".pt2";
  auto target = absolute_target(out);
  const auto text = printable(out.string(), 300);
  if (target.extension() != ending)
    throw config_error(fmt::format("--out: '{}': a file of --format {} must end with {}", text,
                                   name_of(format), ending));
  std::error_code ignored;
  if (fs::exists(target, ignored))
    throw config_error(fmt::format("--out: '{}' exists already", text));
  return target;
}

// A directory next to `target` for what is being written. It is locked, so that later exports to
// `target` recognize and remove those that killed ones left. On some file systems a lock counts on
// one host only, so one that was modified lately also counts as in use.
class ExportScratch {
 public:
  explicit ExportScratch(const fs::path& target) {
    const auto parent = target.parent_path();
    const auto prefix = fmt::format("{}{}-", kTemporaryPrefix, target.filename().string());
    make_directories(parent);
    remove_leftovers(parent, prefix);
    for (int i = 0; i < kMaxNames; ++i) {
      path_ = parent / (prefix + launch::random_hex(kNameBytes));
      make_directories(path_);
      if (lock()) return;
    }
    throw environment_error(
        fmt::format("cannot lock {}: other programs lock it", printable(path_.string(), 400)));
  }
  ~ExportScratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ExportScratch(const ExportScratch&) = delete;
  ExportScratch& operator=(const ExportScratch&) = delete;

  const fs::path& path() const { return path_; }

 private:
  static constexpr int kMaxNames = 20;
  static constexpr std::chrono::hours kAbandonedAfter{1};

  static FileDescriptor opened(const fs::path& directory) {
    return FileDescriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }

  // Returns false if another process has taken the new directory for a leftover. Succeeds on a file
  // system without locks.
  bool lock() {
    lock_ = opened(path_);
    if (!lock_.is_open() && errno == ENOENT) return false;
    std::error_code ignored;
    if (!lock_.is_open() || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (lock_.is_open() && errno == EWOULDBLOCK) return false;
      const bool is_unsupported = errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS;
      if (!lock_.is_open() || !is_unsupported) {
        const auto error = errno_error(fmt::format("cannot lock {}", path_.string()));
        fs::remove(path_, ignored);
        throw error;
      }
    }
    return fs::exists(path_, ignored);  // others remove it only while they have the lock
  }

  // Whether the directory and the files in it were last modified long ago.
  static bool is_old(const fs::path& directory) {
    const auto limit = fs::file_time_type::clock::now() - kAbandonedAfter;
    std::error_code error;
    auto newest = fs::last_write_time(directory, error);
    for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end;
         it.increment(error))
      newest = std::max(newest, fs::last_write_time(it->path(), error));
    return !error && newest < limit;
  }

  static void remove_leftovers(const fs::path& parent, const std::string& prefix) {
    std::error_code ignored;
    std::vector<fs::path> found;
    for (fs::directory_iterator it(parent, ignored), end; !ignored && it != end;
         it.increment(ignored)) {
      const auto name = it->path().filename().string();
      if (name.starts_with(prefix) && name.size() == prefix.size() + 2 * kNameBytes)
        found.push_back(it->path());
    }
    for (const auto& path : found) {
      const auto file = opened(path);
      if (file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && is_old(path))
        fs::remove_all(path, ignored);
    }
  }

  fs::path path_;
  FileDescriptor lock_;
};

// `write` makes a file, which is renamed when it is complete. Replaces nothing, also if another
// process makes `target` in the meantime.
void write_file_renamed(const fs::path& target, const std::function<void(const fs::path&)>& write) {
  const ExportScratch scratch(target);
  const auto temporary = scratch.path() / target.filename();
  write(temporary);
  rename_to_new(temporary, target);
  sync_directory(target.parent_path());
}

// The same for a directory with files. Replaces nothing but an empty directory.
void write_directory(const fs::path& target, const std::function<void(const fs::path&)>& write) {
  const ExportScratch scratch(target);
  write(scratch.path());
  sync_directory(scratch.path());
  if (::rename(scratch.path().c_str(), target.c_str()) != 0)
    throw errno_error(fmt::format("cannot create {}", target.string()));
  sync_directory(target.parent_path());
}

// Those that evaluations use: the averaged ones, if there are some.
const NamedTensors& evaluated(const Checkpoint& checkpoint) {
  return checkpoint.head.ema_updates > 0 ? checkpoint.ema : checkpoint.model;
}

void copy_directory(const std::vector<fs::path>& files, const ExportOptions& options,
                    const fs::path& target) {
  uint64_t total = 0;
  for (const auto& file : files) total += fs::file_size(file);
  ExportProgress progress(options.show, total);
  write_directory(target, [&](const fs::path& directory) {
    copy_files(files, directory, [&](uint64_t bytes) { progress.add(bytes); });
  });
}

// The weights of a checkpoint of all weights, and what belongs to them.
std::vector<fs::path> model_files(const fs::path& checkpoint) {
  auto files = models::HfDirectory{"hf", checkpoint}.companions();
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with("model") &&
        (name.ends_with(".safetensors") || name.ends_with(formats::kSafetensorsIndexEnding)))
      files.push_back(entry.path());
  }
  return files;
}

// The base model's configuration and tokenizer. `may_lack`: none, if the base model has no name.
std::vector<fs::path> base_companions(const fs::path& dir, const BaseWeights& base, bool may_lack) {
  const auto file = dir / models::kAdapterConfig;
  const auto name = nlohmann::json::parse(read_file(file))["base_model_name_or_path"];
  const fs::path named = name.is_string() ? name.get<std::string>() : "";  // PEFT may write null
  for (const auto& directory : {named, fs::path(base.path).parent_path()})
    if (!directory.empty() && has_file(directory, "config.json"))
      return models::HfDirectory{"hf", directory}.companions();
  if (named.empty() && may_lack) return {};
  throw config_error(fmt::format("{}: base_model_name_or_path is '{}'; expected a local directory",
                                 printable(file.string(), 400), printable(named.string(), 400)));
}

// The configuration of the model of a compiled package, which may differ from its base model's;
// empty: the run trained no package.
std::string config_of_package(const fs::path& checkpoint) {
  if (!has_file(checkpoint, models::kPackageReference)) return {};
  const auto reference = read_file(checkpoint / models::kPackageReference);
  return nlohmann::json::parse(reference).value("model_config", "");
}

// Merges adapters into the weights, one at a time.
class MergedModel {
 public:
  // `tensors`: of the base model and of the adapters. Throws Config if one of these has
  // no weight to change.
  MergedModel(const NamedTensors& tensors, const models::LoraConfig& config)
      : tensors_(tensors.begin(), tensors.end()), scale_(config.scale()) {
    for (const auto& [name, tensor] : tensors_)
      if (const auto end = name.find(".lora_A.weight");
          end != std::string::npos && !tensors_.contains(name.substr(0, end) + ".weight"))
        throw config_error(
            fmt::format("--merge: the base model has no '{}.weight', which '{}' changes",
                        printable(name.substr(0, end), 200), printable(name, 200)));
  }

  // On the meta device, with the names of the base model.
  NamedTensors layout() const {
    NamedTensors layout;
    for (const auto& [name, tensor] : tensors_)
      if (name.find(".lora_") == std::string::npos)
        layout.emplace_back(name, at::empty(tensor.sizes(), tensor.options().device(at::kMeta)));
    return layout;
  }

  at::Tensor merged(const std::string& name) const {
    const auto& weight = tensors_.at(name);
    const auto module = name.substr(0, name.rfind('.'));
    const auto a = tensors_.find(module + ".lora_A.weight");
    if (a == tensors_.end() || !name.ends_with(".weight")) return weight;
    const auto magnitude = tensors_.find(module + ".lora_magnitude_vector.weight");
    return models::merged_weight(weight, a->second, tensors_.at(module + ".lora_B.weight"),
                                 magnitude == tensors_.end() ? at::Tensor() : magnitude->second,
                                 scale_);
  }

 private:
  std::map<std::string, at::Tensor> tensors_;
  double scale_;
};

std::string export_merged(Checkpoint checkpoint, const fs::path& source,
                          const ExportOptions& options, const fs::path& target) {
  add_base(checkpoint, options.package);
  const auto file = source / models::kAdapterConfig;
  const auto config = models::parse_adapter_config(read_file(file), file.string());
  const auto package_config = config_of_package(source);
  auto companions = base_companions(source, checkpoint.head.base, !package_config.empty());
  if (!package_config.empty())
    std::erase_if(companions, [](const auto& path) { return path.filename() == "config.json"; });
  const MergedModel model(evaluated(checkpoint), config);
  const auto layout = model.layout();
  ExportProgress progress(options.show, bytes_of(layout));
  write_directory(target, [&](const fs::path& directory) {
    copy_files(companions, directory);
    if (!package_config.empty()) write_file_durably(directory / "config.json", package_config);
    write_safetensors(directory / "model.safetensors", layout, [&](const std::string& name) {
      auto tensor = model.merged(name);
      progress.add(tensor.nbytes());
      return tensor;
    });
  });
  return "model with merged adapters";
}

// Those in the checkpoint's adapter `file`, under its names. Without a base, `tensors` are all.
NamedTensors adapters_of(NamedTensors tensors, const fs::path& file) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : read_safetensors(file)) names.insert(name);
  for (auto& [name, tensor] : tensors) name = models::name_in_peft(name);
  std::erase_if(tensors, [&](const auto& item) { return !names.contains(item.first); });
  if (tensors.size() != names.size())
    throw environment_error(fmt::format("{} has {} tensors, but {} of them have averages",
                                        printable(file.string(), 400), names.size(),
                                        tensors.size()));
  return tensors;
}

// The averaged weights, under the names that the files of the checkpoint have for other programs.
std::string export_averaged(const Checkpoint& checkpoint, const fs::path& source, bool has_adapters,
                            const fs::path& target) {
  auto tensors = checkpoint.ema;
  if (has_adapters) tensors = adapters_of(std::move(tensors), source / models::kAdapterWeights);
  const auto companions = has_adapters ? std::vector{source / models::kAdapterConfig}
                                       : models::HfDirectory{"hf", source}.companions();
  write_directory(target, [&](const fs::path& directory) {
    copy_files(companions, directory);
    write_safetensors(directory / (has_adapters ? models::kAdapterWeights : "model.safetensors"),
                      tensors, {}, {{"format", "pt"}});
  });
  return has_adapters ? "adapter" : "model";
}

std::string export_directory(Checkpoint checkpoint, const fs::path& source,
                             const ExportOptions& options, const fs::path& target) {
  const bool has_adapters = has_file(source, models::kAdapterConfig);
  if (options.merge) return export_merged(std::move(checkpoint), source, options, target);
  if (checkpoint.head.ema_updates > 0)
    return export_averaged(checkpoint, source, has_adapters, target);
  copy_directory(
      has_adapters ? std::vector{source / models::kAdapterConfig, source / models::kAdapterWeights}
                   : model_files(source),
      options, target);
  return has_adapters ? "adapter" : "model";
}

std::string export_tensors(const Checkpoint& checkpoint, const ExportOptions& options,
                           const fs::path& target) {
  const auto& tensors = evaluated(checkpoint);
  const auto run = fs::absolute(options.checkpoints).lexically_normal().parent_path().filename();
  const formats::SafetensorsMetadata metadata = {
      {"format", "pt"},  // the framework, for transformers
      {"run", run.string()},
      {"step", std::to_string(options.step)},
      {"weights", checkpoint.head.ema_updates > 0 ? "averaged" : "trained"}};
  write_file_renamed(target,
                     [&](const fs::path& file) { write_safetensors(file, tensors, {}, metadata); });
  return fmt::format("{} {}tensors", tensors.size(),
                     checkpoint.head.ema_updates > 0 ? "averaged " : "");
}

}  // namespace

std::string export_checkpoint(const ExportOptions& options) {
  const auto source = options.checkpoints / std::to_string(options.step);
  const bool has_adapters = has_file(source, models::kAdapterConfig);
  const bool has_layout = has_adapters || has_file(source, "config.json");
  const auto name = printable(source.string(), 300);
  const auto format =
      options.format.value_or(has_layout ? ExportFormat::HuggingFace : ExportFormat::Safetensors);
  if (format == ExportFormat::HuggingFace && !has_layout)
    throw config_error(fmt::format(
        "--format hf: {} has neither config.json nor {}, which models in Hugging Face's layout "
        "(model hf) have; --format safetensors exports any model",
        name, models::kAdapterConfig));
  if (options.merge && (!has_adapters || format != ExportFormat::HuggingFace))
    throw config_error(has_adapters ? std::string("--merge: only for --format hf")
                                    : fmt::format("--merge: {} has no adapters", name));
  const bool is_graph = format == ExportFormat::Aoti || format == ExportFormat::Pt2;
  if (!options.package.empty() && !is_graph && !options.merge)
    throw config_error("--package: only for --format aoti and pt2, and for --merge");
  const auto target = format == ExportFormat::HuggingFace ? verified_directory(options.out)
                                                          : verified_file(options.out, format);
  auto checkpoint = read_checkpoint(options.checkpoints, options.step);
  if (is_graph) add_base(checkpoint, options.package);  // verifies it
  if (is_graph) export_graph({source, name_of(format), target, options.package});
  const auto what = format == ExportFormat::Safetensors
                        ? export_tensors(checkpoint, options, target)
                        : export_directory(std::move(checkpoint), source, options, target);
  return fmt::format("{} of step {} in {}", what, options.step, printable(target.string(), 400));
}

}  // namespace lockstep::trainer
