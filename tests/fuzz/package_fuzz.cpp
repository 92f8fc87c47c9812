// Arbitrary bytes, and arbitrary manifests in a valid archive, are either a package or a Config
// error.
#include <zip.h>
#include <zlib.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "lockstep/error.h"
#include "models/package/package.h"
#include "models/package_reference.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

using Members = std::vector<std::pair<std::string, std::string>>;

std::string pack(const Members& members) {
  auto* source = zip_source_buffer_create(nullptr, 0, 0, nullptr);
  zip_source_keep(source);
  auto* zip = zip_open_from_source(source, ZIP_TRUNCATE, nullptr);
  for (const auto& [name, content] : members) {
    const auto index = zip_file_add(zip, name.c_str(),
                                    zip_source_buffer(zip, content.data(), content.size(), 0), 0);
    zip_set_file_compression(zip, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  zip_close(zip);
  zip_source_open(source);
  std::string bytes(1 << 16, '\0');
  bytes.resize(static_cast<size_t>(zip_source_read(source, bytes.data(), bytes.size())));
  zip_source_close(source);
  zip_source_free(source);
  return bytes;
}

// Members of a package with one parameter, without the manifest.
const Members& contents() {
  static const Members members = [] {
    const auto graph = pack({{"m/data/aotinductor/model/a.wrapper.so", "code"},
                             {"m/data/aotinductor/model/a.wrapper.json", "{}"}});
    const auto header = formats::make_safetensors_header(
        {{.name = "layer.weight", .dtype = "F32", .shape = {2}, .begin = 0, .end = 8}});
    return Members{{"train.pt2", graph},
                   {"eval.pt2", graph},
                   {"weights.safetensors", header + std::string(8, '\1')}};
  }();
  return members;
}

std::string sound_manifest() {
  nlohmann::json manifest = {
      {"format", 3},
      {"name", "Net"},
      {"torch", "2.11.0"},
      {"device", "cpu"},
      {"architecture", "x86_64"},
      {"precision", "fp32"},
      {"cpu_flags", {"avx2"}},
      {"batch_size", 32},
      {"dynamic_batch", false},
      {"parameters",
       {{{"name", "layer.weight"}, {"dtype", "float32"}, {"shape", {2}}, {"trainable", true}}}},
      {"buffers", nlohmann::json::array()},
      {"fields", {{{"name", "x"}, {"dtype", "float32"}, {"shape", {2}}}}},
      {"sums", {"accuracy"}},
      {"predictions", true},
      {"gpu", ""},
      {"targets", ""},
      {"all_count", "x"},
      {"segments", {{{"takes", {0, 1, 2}}, {"gradients", 1}, {"keeps", 0}}}},
      {"evaluation", {{{"takes", {0, 1}}, {"gradients", 0}, {"keeps", 0}}}},
      {"units", {"layer"}},
      {"adapter", {{"config", "{}"}, {"tensors", {{"layer.weight", "base_model.layer.weight"}}}}}};
  for (const auto& [name, content] : contents())
    manifest["members"][name] = {
        {"bytes", content.size()},
        {"crc32",
         ::crc32_z(0, reinterpret_cast<const unsigned char*>(content.data()), content.size())}};
  return manifest.dump();
}

std::string package_with(const std::string& manifest) {
  auto members = contents();
  members.emplace_back("manifest.json", manifest);
  return pack(members);
}

// Whether `bytes` are accepted as a package.
bool is_package(const std::string& bytes) {
  try {
    const std::span file(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    const models::CompiledPackage package(file, "input");
    if (models::weights_of_package(file, "input").empty()) std::abort();
    if (package.graph("train").library.empty()) std::abort();
    std::array<uint8_t, 8> weight{};
    for (const auto& spec : package.manifest().parameters)
      if (spec.dtype == "float32" && spec.shape == std::vector<int64_t>{2})
        package.copy_weight(spec.name, weight.data());
    package.verify_host({.torch = "2.11.0", .architecture = "x86_64", .cpu_flags = {"avx2"}});
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
    return false;
  }
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  if (!is_package(package_with(sound_manifest()))) std::abort();
  return {package_with(sound_manifest()), sound_manifest()};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  lockstep::is_package(input);
  if (!input.empty() && input.front() == '{') lockstep::is_package(lockstep::package_with(input));
  return 0;
}
