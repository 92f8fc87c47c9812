#include "formats/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference implementation

constexpr std::array<std::pair<const char*, size_t>, 12> kDtypes = {{{"F64", 8},
                                                                     {"F32", 4},
                                                                     {"F16", 2},
                                                                     {"BF16", 2},
                                                                     {"I64", 8},
                                                                     {"I32", 4},
                                                                     {"U32", 4},
                                                                     {"I16", 2},
                                                                     {"U16", 2},
                                                                     {"I8", 1},
                                                                     {"U8", 1},
                                                                     {"BOOL", 1}}};

// Name and error kind of the parsed file.
struct ParsedFile {
  const std::string& name;
  ErrorKind kind;

  Error corrupt(const std::string& why) const {
    return {kind, name + ": not a valid safetensors file: " + why};
  }
  Error unknown_dtype(const std::string& tensor, const std::string& dtype) const {
    std::string known;
    for (const auto& [one, bytes] : kDtypes)
      known += (known.empty() ? "" : ", ") + std::string(one);
    return {kind, name + ": tensor '" + tensor + "' has unknown dtype '" + dtype +
                      "'; supported: " + known};
  }
};

size_t read_length(std::span<const uint8_t> file) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<uint64_t>(file[i]) << (8 * i);
  return length;
}

std::vector<uint64_t> unsigned_list(const Json& json, const char* key, const ParsedFile& file) {
  const auto it = json.find(key);
  if (it == json.end() || !it->is_array())
    throw file.corrupt(std::string("a tensor has no ") + key);
  std::vector<uint64_t> values;
  for (const auto& item : *it) {
    if (!item.is_number_unsigned())
      throw file.corrupt(std::string(key) + " has an element that is not a size");
    values.push_back(item.get<uint64_t>());
  }
  return values;
}

// Sets `bytes` to the product of the shape and the element size; returns false on overflow of 63
// bits.
bool multiply(const std::vector<uint64_t>& shape, size_t element, uint64_t& bytes) {
  bytes = element;
  for (const auto size : shape)
    if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > INT64_MAX) return false;
  return true;
}

TensorEntry parse_entry(const std::string& tensor, const Json& json, size_t data_begin,
                        size_t data_size, const ParsedFile& file) {
  if (!json.is_object() || !json.contains("dtype") || !json["dtype"].is_string())
    throw file.corrupt("tensor '" + tensor + "' has no dtype");
  TensorEntry entry;
  entry.name = tensor;
  entry.dtype = json["dtype"].get<std::string>();
  const auto element = dtype_bytes(entry.dtype);
  if (element == 0) throw file.unknown_dtype(tensor, entry.dtype);
  const auto shape = unsigned_list(json, "shape", file);
  const auto offsets = unsigned_list(json, "data_offsets", file);
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_size)
    throw file.corrupt("tensor '" + tensor + "' is outside the file (is it truncated?)");
  uint64_t bytes = 0;
  if (!multiply(shape, element, bytes) || bytes != offsets[1] - offsets[0])
    throw file.corrupt("tensor '" + tensor + "' has a size that does not match its shape");
  for (const auto size : shape) {
    if (size > INT64_MAX) throw file.corrupt("tensor '" + tensor + "' has an invalid shape");
    entry.shape.push_back(static_cast<int64_t>(size));
  }
  entry.begin = data_begin + offsets[0];
  entry.end = data_begin + offsets[1];
  return entry;
}

}  // namespace

size_t dtype_bytes(const std::string& dtype) {
  for (const auto& [name, bytes] : kDtypes)
    if (dtype == name) return bytes;
  return 0;
}

std::vector<TensorEntry> parse_safetensors(std::span<const uint8_t> bytes, const std::string& name,
                                           ErrorKind kind) {
  const ParsedFile file{name, kind};
  if (bytes.size() < kLengthBytes)
    throw file.corrupt("it has only " + std::to_string(bytes.size()) + " bytes");
  const auto length = read_length(bytes);
  if (length > kMaxHeaderBytes || length > bytes.size() - kLengthBytes)
    throw file.corrupt("its header is longer than the file (is it truncated?)");
  const auto* text = reinterpret_cast<const char*>(bytes.data() + kLengthBytes);
  const auto header = Json::parse(text, text + length, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) throw file.corrupt("its header is not a JSON object");
  const auto data_begin = kLengthBytes + length;
  std::vector<TensorEntry> entries;
  for (const auto& [tensor, json] : header.items())
    if (tensor != "__metadata__")
      entries.push_back(parse_entry(tensor, json, data_begin, bytes.size() - data_begin, file));
  // An empty tensor comes before the one that begins at the same place.
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  for (size_t i = 1; i < entries.size(); ++i)
    if (entries[i].begin < entries[i - 1].end) throw file.corrupt("tensors overlap");
  return entries;
}

std::string make_safetensors_header(const std::vector<TensorEntry>& entries,
                                    const SafetensorsMetadata& metadata) {
  auto json = Json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  for (const auto& entry : entries)
    json[entry.name] = {
        {"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  auto text = json.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  std::string header(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) header[i] = static_cast<char>(text.size() >> (8 * i));
  return header + text;
}

}  // namespace lockstep::formats
