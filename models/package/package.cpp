#include "models/package/package.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <sstream>

#include "core/minor_version.h"
#include "core/printable.h"
#include "lockstep/error.h"
#include "models/package_reference.h"

namespace lockstep::models {
namespace {

constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxGraphBytes = uint64_t{4} << 30;
constexpr const char* kManifest = "manifest.json";
constexpr const char* kWeights = "weights.safetensors";
constexpr const char* kPrediction = "predict.pt2";  // for lockstep-compile export
constexpr const char* kReplaceHint = "copy it again or recompile the model";

std::optional<size_t> index_of(const std::vector<std::string>& names, const std::string& name) {
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) return std::nullopt;
  return static_cast<size_t>(it - names.begin());
}

// "eval", "eval.2", ...
std::vector<std::string> kinds_of(const std::string& pass,
                                  const std::vector<SegmentSpec>& segments) {
  std::vector<std::string> kinds = {pass};
  for (size_t i = 1; i < segments.size(); ++i) kinds.push_back(fmt::format("{}.{}", pass, i + 1));
  return kinds;
}

std::vector<std::string> members_of(const PackageManifest& manifest) {
  std::vector<std::string> members = {kWeights};
  if (!manifest.targets.empty()) members.emplace_back("count.pt2");
  for (const auto& kind : kinds_of("eval", manifest.evaluation)) members.push_back(kind + ".pt2");
  for (const auto& kind : kinds_of("train", manifest.segments)) members.push_back(kind + ".pt2");
  if (manifest.members.contains(kPrediction)) members.emplace_back(kPrediction);
  return members;
}

const char* safetensors_name(const std::string& dtype) {
  constexpr std::array<std::pair<const char*, const char*>, 10> kNames = {{{"float64", "F64"},
                                                                           {"float32", "F32"},
                                                                           {"float16", "F16"},
                                                                           {"bfloat16", "BF16"},
                                                                           {"int64", "I64"},
                                                                           {"int32", "I32"},
                                                                           {"int16", "I16"},
                                                                           {"int8", "I8"},
                                                                           {"uint8", "U8"},
                                                                           {"bool", "BOOL"}}};
  for (const auto& [python, stored] : kNames)
    if (dtype == python) return stored;
  return "";
}

}  // namespace

bool may_be_package(std::span<const uint8_t> file) {
  constexpr std::array<uint8_t, 4> kZip = {'P', 'K', 3, 4};
  return file.size() >= kZip.size() && std::ranges::equal(file.first(kZip.size()), kZip);
}

std::span<const uint8_t> weights_of_package(std::span<const uint8_t> file,
                                            const std::string& name) {
  const formats::ZipFile archive(file, name);
  const auto at = index_of(archive.members(), kWeights);
  if (!at) throw config_error(fmt::format("{}: has no {}", name, kWeights));
  return archive.stored(*at);
}

HostFacts host_facts(const std::string& torch_version) {
  HostFacts facts{.torch = torch_version};
  utsname system{};
  if (::uname(&system) == 0) facts.architecture = system.machine;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) facts.cpu_flags.push_back(word);
    break;
  }
  return facts;
}

CompiledPackage::CompiledPackage(const std::string& path)
    : name_(printable(path, 400)), file_(std::make_unique<formats::MappedFile>(path)) {
  read(file_->bytes());
}

CompiledPackage::CompiledPackage(std::span<const uint8_t> bytes, const std::string& name)
    : name_(name) {
  read(bytes);
}

void CompiledPackage::read(std::span<const uint8_t> bytes) {
  try {
    archive_ = std::make_unique<formats::ZipFile>(bytes, name_);
  } catch (const Error& error) {
    throw config_error(fmt::format("{} (is it truncated?); {}", error.what(), kReplaceHint));
  }
  members_ = archive_->members();
  const auto at = index_of(members_, kManifest);
  if (!at)
    throw config_error(
        fmt::format("{}: has no {}: not a package of lockstep-compile", name_, kManifest));
  const auto json = archive_->read(*at, kMaxManifestBytes);
  manifest_crc32_ = static_cast<uint32_t>(::crc32_z(0, json.data(), json.size()));
  manifest_ =
      parse_package_manifest({reinterpret_cast<const char*>(json.data()), json.size()}, name_);
  const auto expected = members_of(manifest_);
  for (const auto& member : members_)
    if (member != kManifest && !index_of(expected, member))
      throw config_error(fmt::format("{}: has a member '{}' that is not in its manifest", name_,
                                     printable(member)));
  for (const auto& name : expected)
    if (name != kWeights) member(name);
  try {
    weights_ = archive_->stored(member_index(kWeights));
  } catch (const Error& error) {
    throw config_error(fmt::format("{}; {}", error.what(), kReplaceHint));
  }
  verify_content(kWeights, weights_);
  entries_ =
      formats::parse_safetensors(weights_, name_ + ": weights.safetensors", ErrorKind::Config);
  verify_weights();
}

size_t CompiledPackage::member_index(const std::string& name) const {
  const auto at = index_of(members_, name);
  if (!at || !manifest_.members.contains(name))
    throw config_error(fmt::format("{}: has no {}; {}", name_, name, kReplaceHint));
  return *at;
}

std::vector<uint8_t> CompiledPackage::member(const std::string& name) const {
  const auto at = member_index(name);
  std::vector<uint8_t> content;
  try {
    content = archive_->read(at, manifest_.members.at(name).bytes);
  } catch (const Error& error) {
    throw config_error(fmt::format("{}; {}", error.what(), kReplaceHint));
  }
  verify_content(name, content);
  return content;
}

void CompiledPackage::verify_content(const std::string& name,
                                     std::span<const uint8_t> content) const {
  const auto& expected = manifest_.members.at(name);
  const auto crc = ::crc32_z(0, content.data(), content.size());
  if (content.size() != expected.bytes || crc != expected.crc32)
    throw config_error(
        fmt::format("{}: {} does not match its manifest (checksum {:08x}, expected {:08x}); {}",
                    name_, name, crc, expected.crc32, kReplaceHint));
}

void CompiledPackage::copy_weight(const std::string& name, void* target) const {
  const auto entry = std::ranges::find(entries_, name, &formats::TensorEntry::name);
  check(entry != entries_.end(), "a package has no such weight");
  std::copy_n(weights_.data() + entry->begin, entry->end - entry->begin,
              static_cast<uint8_t*>(target));
  if (file_) file_->verify_unchanged();
}

void CompiledPackage::verify_weights() const {
  size_t count = 0;
  for (const auto* list : {&manifest_.parameters, &manifest_.buffers}) {
    for (const auto& spec : *list) {
      const auto found =
          std::find_if(entries_.begin(), entries_.end(),
                       [&](const formats::TensorEntry& entry) { return entry.name == spec.name; });
      if (found == entries_.end() || found->shape != spec.shape ||
          found->dtype != safetensors_name(spec.dtype))
        throw config_error(
            fmt::format("{}: the weights have no '{}' of {} [{}], as in its manifest", name_,
                        printable(spec.name), printable(spec.dtype), fmt::join(spec.shape, ", ")));
      ++count;
    }
  }
  if (count != entries_.size())
    throw config_error(fmt::format("{}: the weights have {} tensors, its manifest {}", name_,
                                   entries_.size(), count));
}

void CompiledPackage::verify_host(const HostFacts& host) const {
  if (minor_of(manifest_.torch) != minor_of(host.torch))
    throw config_error(
        fmt::format("{}: was compiled with LibTorch {}, this is {}: recompile it with the torch "
                    "that Lockstep was built with",
                    name_, printable(manifest_.torch), host.torch));
  if (manifest_.architecture != host.architecture)
    throw config_error(
        fmt::format("{}: was compiled for {} processors, this machine is {}: compile it on a "
                    "machine like this one",
                    name_, printable(manifest_.architecture), host.architecture));
  std::vector<std::string> missing;
  for (const auto& flag : manifest_.cpu_flags)
    if (!index_of(host.cpu_flags, flag)) missing.push_back(printable(flag));
  if (!missing.empty())
    throw config_error(
        fmt::format("{}: uses instructions that this processor does not support ({}): compile it "
                    "on the oldest machine of the training",
                    name_, fmt::join(missing, ", ")));
}

std::vector<GraphFiles> CompiledPackage::training() const {
  std::vector<GraphFiles> files;
  for (const auto& kind : kinds_of("train", manifest_.segments)) files.push_back(graph(kind));
  return files;
}

std::vector<GraphFiles> CompiledPackage::evaluation() const {
  std::vector<GraphFiles> files;
  for (const auto& kind : kinds_of("eval", manifest_.evaluation)) files.push_back(graph(kind));
  return files;
}

GraphFiles CompiledPackage::graph(const std::string& kind) const {
  const auto content = member(kind + ".pt2");
  const auto name = fmt::format("{}: {}.pt2", name_, kind);
  const formats::ZipFile archive(content, name);
  const auto members = archive.members();
  const auto ends = [&](const char* ending) {
    return [ending](const std::string& path) { return path.ends_with(ending); };
  };
  const auto library = std::find_if(members.begin(), members.end(), ends(".so"));
  if (library == members.end() || std::count_if(members.begin(), members.end(), ends(".so")) != 1)
    throw config_error(
        fmt::format("{}: does not contain exactly one library; {}", name, kReplaceHint));
  GraphFiles files;
  files.library = archive.read(static_cast<size_t>(library - members.begin()), kMaxGraphBytes);
  auto operators = *library;
  operators.replace(operators.size() - 3, 3, ".json");
  if (const auto at = index_of(members, operators))
    files.operators = archive.read(*at, kMaxGraphBytes);
  return files;
}

}  // namespace lockstep::models
