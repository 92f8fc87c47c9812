#include "formats/mds/mds_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/printable.h"
#include "formats/element_type.h"
#include "formats/path_list.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

using JsonValue = nlohmann::json;

constexpr int64_t kVersion = 2;
constexpr int64_t kMaxBytes = int64_t{1} << 32;  // offsets in a shard have 32 bits
constexpr int64_t kMaxElements = 1 << 20;        // of an array with a fixed shape

struct NumberName {
  const char* name;
  int code;  // in an array
  MdsNumber type;
  int64_t bytes;
};
constexpr std::array<NumberName, 11> kNumbers = {{{"uint8", 8, MdsNumber::U8, 1},
                                                  {"int8", 9, MdsNumber::I8, 1},
                                                  {"uint16", 16, MdsNumber::U16, 2},
                                                  {"int16", 17, MdsNumber::I16, 2},
                                                  {"float16", 18, MdsNumber::F16, 2},
                                                  {"uint32", 32, MdsNumber::U32, 4},
                                                  {"int32", 33, MdsNumber::I32, 4},
                                                  {"float32", 34, MdsNumber::F32, 4},
                                                  {"uint64", 64, MdsNumber::U64, 8},
                                                  {"int64", 65, MdsNumber::I64, 8},
                                                  {"float64", 66, MdsNumber::F64, 8}}};

std::optional<MdsNumber> number_called(std::string_view name) {
  for (const auto& number : kNumbers)
    if (number.name == name) return number.type;
  if (name == "int") return MdsNumber::I64;
  return std::nullopt;
}

class IndexReader {
 public:
  explicit IndexReader(const std::string& name) : name_(name) {}

  MdsIndex read(const std::string& text) const {
    const auto json = JsonValue::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) throw refused("it is not a JSON object");
    const auto& shards = member(json, "shards");
    if (number(json, "version") != kVersion) throw refused("only version 2 is supported");
    if (!shards.is_array() || shards.empty()) throw refused("it has no shards");
    MdsIndex index;
    for (const auto& shard : shards) {
      if (!shard.is_object()) throw refused("a shard is not an object");
      if (number(shard, "version") != kVersion) throw refused("only version 2 is supported");
      if (const auto format = text_of(shard, "format"); format != "mds")
        throw refused(fmt::format("format '{}' is not supported, only mds", printable(format)));
      auto columns = columns_of(shard);
      if (index.shards.empty())
        index.columns = std::move(columns);
      else if (columns != index.columns)
        throw refused(fmt::format("the columns of shard {} differ from those of shard 1",
                                  index.shards.size() + 1));
      index.shards.push_back(shard_of(shard));
    }
    return index;
  }

 private:
  Error refused(const std::string& why) const { return config_error(name_ + ": " + why); }

  const JsonValue& member(const JsonValue& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end()) throw refused(fmt::format("key '{}' is missing", key));
    return *found;
  }

  int64_t number(const JsonValue& object, const char* key) const {
    const auto& value = member(object, key);
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > kMaxBytes)
      throw refused(fmt::format("'{}' is not a count", key));
    return value.get<int64_t>();
  }

  std::string text_of(const JsonValue& object, const char* key) const {
    const auto& value = member(object, key);
    if (!value.is_string()) throw refused(fmt::format("'{}' is not a string", key));
    return value.get<std::string>();
  }

  std::string file_name(const JsonValue& file) const {
    if (!file.is_object()) throw refused("a file of a shard is not an object");
    auto name = text_of(file, "basename");
    if (!stays_in_folder(name))
      throw refused(fmt::format("'{}' does not lead to a file in this directory", printable(name)));
    return name;
  }

  MdsShard shard_of(const JsonValue& shard) const {
    MdsShard out;
    const auto& raw = member(shard, "raw_data");
    out.raw_name = file_name(raw);
    out.raw_bytes = number(raw, "bytes");
    out.samples = number(shard, "samples");
    const auto zip = shard.find("zip_data");
    if (zip == shard.end() || zip->is_null()) return out;
    out.zip_name = file_name(*zip);
    const auto compression = text_of(shard, "compression");
    if (compression.substr(0, compression.find(':')) != "zstd")
      throw refused(
          fmt::format("compression '{}' is not supported, only zstd: decompress the shards next to "
                      "index.json",
                      printable(compression)));
    return out;
  }

  std::vector<MdsColumn> columns_of(const JsonValue& shard) const {
    const auto& names = member(shard, "column_names");
    const auto& encodings = member(shard, "column_encodings");
    const auto& sizes = member(shard, "column_sizes");
    if (!names.is_array() || !encodings.is_array() || !sizes.is_array() || names.empty() ||
        names.size() != encodings.size() || names.size() != sizes.size())
      throw refused("column_names, column_encodings and column_sizes differ in length");
    std::vector<MdsColumn> columns;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!names[i].is_string() || !encodings[i].is_string())
        throw refused("the name or encoding of a column is not a string");
      auto column = column_of(names[i].get<std::string>(), encodings[i].get<std::string>());
      const bool has_size = sizes[i].is_number_integer();
      if (!has_size && !sizes[i].is_null()) throw refused("a column size is not a number");
      const auto size = has_size ? sizes[i].get<int64_t>() : 0;
      if (size < 0 || size > kMaxBytes || (column.size > 0 && size != column.size) ||
          (column.kind == MdsKind::Number && size == 0))
        throw refused(fmt::format("column '{}' has size {}, which does not fit its encoding {}",
                                  printable(column.name), size, printable(column.encoding)));
      column.size = size;
      if (std::ranges::find(columns, column.name, &MdsColumn::name) != columns.end())
        throw refused(fmt::format("two columns are called '{}'", printable(column.name)));
      columns.push_back(std::move(column));
    }
    return columns;
  }

  // `size` is set if the encoding determines it.
  MdsColumn column_of(const std::string& name, const std::string& encoding) const {
    MdsColumn column{.name = name, .encoding = encoding};
    const auto colon = encoding.find(':');
    const auto kind = encoding.substr(0, colon);
    if ((column.number = number_called(encoding))) {
      column.kind = MdsKind::Number;
      column.size = bytes_of(*column.number);
    } else if (kind == "ndarray") {
      column.kind = MdsKind::Array;
      if (colon != encoding.npos) read_array(encoding.substr(colon + 1), column);
    } else if (kind == "str_int" || kind == "str_float" || kind == "str_decimal") {
      column.kind = MdsKind::NumberText;
    } else if (kind == "str") {
      column.kind = MdsKind::Text;
    } else if (kind == "bytes" || kind == "jpeg" || kind == "png" || kind == "jpeg_array") {
      column.kind = MdsKind::Bytes;
    }
    return column;
  }

  // "int32" or "int32:2,3"
  void read_array(const std::string& text, MdsColumn& column) const {
    const auto bad = [&] {
      return refused(fmt::format("column '{}' has the unknown encoding {}", printable(column.name),
                                 printable(column.encoding)));
    };
    const auto colon = text.find(':');
    column.number = number_called(text.substr(0, colon));
    if (!column.number || text.substr(0, colon) == "int") throw bad();
    if (colon == text.npos) return;
    for (const auto *at = text.data() + colon + 1, *end = text.data() + text.size(); at <= end;) {
      int64_t extent = 0;
      const auto parsed = std::from_chars(at, end, extent);
      const bool is_last = parsed.ptr == end;
      if (parsed.ec != std::errc() || extent < 1 || (!is_last && *parsed.ptr != ',')) throw bad();
      column.shape.push_back(extent);
      at = parsed.ptr + 1;
    }
    const auto count = num_elements(column.shape);
    if (!count || *count > static_cast<size_t>(kMaxElements)) throw bad();
    column.size = static_cast<int64_t>(*count) * bytes_of(*column.number);
  }

  const std::string& name_;
};

}  // namespace

int64_t bytes_of(MdsNumber type) {
  return std::ranges::find(kNumbers, type, &NumberName::type)->bytes;
}

std::optional<MdsNumber> mds_number(int code) {
  const auto found = std::ranges::find(kNumbers, code, &NumberName::code);
  if (found == kNumbers.end()) return std::nullopt;
  return found->type;
}

MdsIndex parse_mds_index(const std::string& text, const std::string& name) {
  return IndexReader(name).read(text);
}

}  // namespace lockstep::formats
