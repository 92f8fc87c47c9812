#include "formats/idx_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "formats/gzip.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr uint64_t kMaxIdxBytes = 4ull << 30;
constexpr uint8_t kUnsignedByte = 0x08;
constexpr int kMaxDims = 8;

// The decompressed content of the file.
class Content {
 public:
  Content(std::span<const uint8_t> bytes, const std::string& name)
      : plain_(bytes), capacity_(bytes.size()) {
    if (!is_gzip(bytes)) return;
    gzip_.emplace(bytes, name);
    capacity_ = gzip_capacity(bytes.size());
  }

  size_t read(std::span<uint8_t> out) {
    if (gzip_) return gzip_->read(out);
    const auto count = std::min(out.size(), plain_.size());
    if (count > 0) std::memcpy(out.data(), plain_.data(), count);
    plain_ = plain_.subspan(count);
    return count;
  }

  // The next `count` bytes, or those that are left; decompressed, they are in `memory`.
  std::span<const uint8_t> take(uint64_t count,
                                std::shared_ptr<const std::vector<uint8_t>>& memory) {
    if (gzip_) {
      auto values = std::make_shared<std::vector<uint8_t>>(count);
      values->resize(gzip_->read(*values));
      memory = values;
      return *values;
    }
    const auto taken = plain_.first(std::min<size_t>(count, plain_.size()));
    plain_ = plain_.subspan(taken.size());
    return taken;
  }

  // An upper bound of the decompressed size.
  uint64_t capacity() const { return capacity_; }
  bool compressed() const { return gzip_.has_value(); }

 private:
  std::span<const uint8_t> plain_;
  std::optional<GzipReader> gzip_;
  uint64_t capacity_;
};

uint8_t read_magic(Content& content, const std::string& name) {
  std::array<uint8_t, 4> magic{};
  const auto found = content.read(magic);
  if (found < magic.size())
    throw config_error(
        fmt::format("{}: truncated: an IDX file starts with 4 magic bytes, found {}", name, found));
  if (magic[0] != 0 || magic[1] != 0)
    throw config_error(fmt::format(
        "{}: not an IDX file: starts with {:02x} {:02x} {:02x} {:02x}, expected 00 00 08 "
        "and the number of dimensions",
        name, magic[0], magic[1], magic[2], magic[3]));
  if (magic[2] != kUnsignedByte)
    throw config_error(
        fmt::format("{}: elements have type 0x{:02x}; only unsigned bytes (0x08) are supported",
                    name, magic[2]));
  if (magic[3] == 0 || magic[3] > kMaxDims)
    throw config_error(
        fmt::format("{}: {} dimensions; 1 to {} are valid", name, magic[3], kMaxDims));
  return magic[3];
}

std::vector<int64_t> read_dims(Content& content, size_t count, const std::string& name) {
  std::vector<uint8_t> raw(4 * count);
  const auto found = content.read(raw);
  if (found < raw.size())
    throw config_error(
        fmt::format("{}: truncated: {} dimensions require a header of {} bytes, found {}", name,
                    count, 4 + raw.size(), 4 + found));
  std::vector<int64_t> dims;
  for (size_t i = 0; i < raw.size(); i += 4)
    dims.push_back(int64_t{raw[i]} << 24 | raw[i + 1] << 16 | raw[i + 2] << 8 | raw[i + 3]);
  return dims;
}

uint64_t num_elements(const std::vector<int64_t>& dims, const std::string& name) {
  uint64_t count = 1;
  for (const auto dim : dims) {
    if (dim == 0)
      throw config_error(fmt::format("{}: a dimension is zero: {}", name, dims_text(dims)));
    count *= static_cast<uint64_t>(dim);  // below 2^32 * 2^32
    if (count > kMaxIdxBytes)
      throw config_error(fmt::format("{}: {}: the elements in the header exceed the limit of 4 GiB",
                                     name, dims_text(dims)));
  }
  return count;
}

void read_values(Content& content, const std::string& name, IdxArray& array) {
  const auto& dims = array.dims;
  const auto expected = num_elements(dims, name);
  const auto header = 4 + 4 * dims.size();
  const auto truncated = [&](uint64_t found, const char* limit) {
    return config_error(
        fmt::format("{}: truncated: {} elements and the header require {} bytes, found {}{}", name,
                    dims_text(dims), header + expected, limit, found));
  };
  // Checked before allocating memory: the header is untrusted.
  if (content.capacity() < header + expected)
    throw truncated(content.capacity(), content.compressed() ? "at most " : "");
  array.values = content.take(expected, array.memory);
  if (array.values.size() < expected) throw truncated(header + array.values.size(), "");
  uint8_t surplus = 0;
  if (content.read({&surplus, 1}) > 0)
    throw config_error(
        fmt::format("{}: trailing bytes: {} elements and the header require {} bytes, found more",
                    name, dims_text(dims), header + expected));
}

}  // namespace

IdxArray parse_idx(std::span<const uint8_t> bytes, const std::string& name) {
  Content content(bytes, name);
  IdxArray array;
  array.dims = read_dims(content, read_magic(content, name), name);
  read_values(content, name, array);
  return array;
}

IdxArray read_idx_file(const std::filesystem::path& path) {
  auto file = std::make_shared<const MappedFile>(path);
  auto array =
      file->read([&](std::span<const uint8_t> bytes) { return parse_idx(bytes, file->name()); });
  if (!array.memory) array.mapped = std::move(file);
  return array;
}

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string text;
  for (const auto dim : dims) text += (text.empty() ? "" : " x ") + std::to_string(dim);
  return text;
}

}  // namespace lockstep::formats
