#include "formats/tokens/token_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/printable.h"
#include "formats/file_kind.h"
#include "formats/path_list.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

using namespace std::string_view_literals;

constexpr size_t kTokenHeaderBytes = 1024;
constexpr size_t kMinTextBytes = 64;  // fewer may be tokens

struct TokenHeaderKind {
  int32_t magic, version;
  ElementType type;
};
constexpr std::array<TokenHeaderKind, 2> kTokenHeaders = {
    {{20240520, 1, ElementType::U16}, {20240801, 7, ElementType::U32}}};

// What else a file without a header is, by bytes that two tokens or more are unlikely to have.
constexpr std::array<std::pair<std::string_view, const char*>, 7> kOtherFiles = {{
    {"\x93NUMPY"sv,
     "a NumPy .npy file; write its tokens with array.astype(numpy.uint16).tofile(...)"},
    {"\x1F\x8B\x08\0"sv, "compressed with gzip; decompress it"},
    {"\x1F\x8B\x08\x08"sv, "compressed with gzip; decompress it"},
    {"\x28\xB5\x2F\xFD"sv, "compressed with zstd; decompress it"},
    {"PK\x03\x04"sv, "a zip archive (or .npz, .pt)"},
    {"PAR1"sv, "a Parquet file"},
    {"ARROW1"sv, "a Feather or Arrow file"},
}};

// Empty: it may be a file of tokens.
std::string other_content(std::string_view file) {
  for (const auto& [begin, what] : kOtherFiles)
    if (file.starts_with(begin)) return what;
  if (file.size() >= kMinTextBytes && !is_binary(file))
    return "text; turn it into tokens with lockstep-data tokenize";
  return {};
}

template <class T>
[[gnu::always_inline]] inline void widen(const uint8_t* __restrict from, int64_t* __restrict out,
                                         size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T token{};
    std::memcpy(&token, from + i * sizeof(T), sizeof(T));
    out[i] = token;
  }
}

#if defined(__x86_64__)
template <class T>
__attribute__((target("avx2"))) void copy_wide(const uint8_t* from, int64_t* out, size_t count) {
  widen<T>(from, out, count);
}
#endif

template <class T>
void copy_tokens(const uint8_t* from, std::span<int64_t> out) {
#if defined(__x86_64__)
  static const bool is_wide = __builtin_cpu_supports("avx2");
  if (is_wide) return copy_wide<T>(from, out.data(), out.size());
#endif
  widen<T>(from, out.data(), out.size());
}

}  // namespace

TokenLayout parse_token_file(std::span<const uint8_t> bytes, ElementType headerless,
                             const std::string& name) {
  const auto refused = [&](const std::string& why) {
    return config_error(fmt::format("{}: not a usable token file: {}", name, why));
  };
  TokenLayout layout{.type = headerless};
  int32_t header[3] = {};
  if (bytes.size() >= sizeof(header)) std::memcpy(header, bytes.data(), sizeof(header));
  const auto kind = std::ranges::find(kTokenHeaders, header[0], &TokenHeaderKind::magic);
  const bool has_header = kind != kTokenHeaders.end() && kind->version == header[1];
  if (has_header) {
    if (bytes.size() < kTokenHeaderBytes) throw refused("it is truncated inside its header");
    layout.type = kind->type;
    layout.begin = kTokenHeaderBytes;
  } else if (const auto other =
                 other_content({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
             !other.empty()) {
    throw refused("it is " + other);
  }
  const auto found = bytes.size() - layout.begin;
  const auto width = bytes_of(layout.type);
  if (found % width != 0)
    throw refused(fmt::format("{} bytes of tokens are not a multiple of {}, the size of {}{}",
                              found, width, name_of(layout.type),
                              has_header ? "" : "; check dtype"));
  layout.tokens = found / width;
  if (has_header && (header[2] < 0 || static_cast<size_t>(header[2]) != layout.tokens))
    throw refused(
        fmt::format("its header specifies {} tokens, found {}", header[2], layout.tokens));
  if (layout.tokens == 0) throw refused("it has no tokens");
  return layout;
}

std::optional<TokenLayout> layout_like(const TokenLayout& other, int64_t size) {
  const auto width = bytes_of(other.type);
  const auto bytes = static_cast<size_t>(size);
  if (bytes <= other.begin || (bytes - other.begin) % width != 0) return std::nullopt;
  return TokenLayout{other.type, other.begin, (bytes - other.begin) / width};
}

std::string token_file_header(ElementType type, size_t tokens) {
  if (tokens > INT32_MAX)
    throw config_error(
        fmt::format("{} tokens exceed the limit of a token file, {}", tokens, INT32_MAX));
  const auto kind = std::ranges::find(kTokenHeaders, type, &TokenHeaderKind::type);
  check(kind != kTokenHeaders.end(), "token type is neither uint16 nor uint32");
  const int32_t header[3] = {kind->magic, kind->version, static_cast<int32_t>(tokens)};
  std::string bytes(kTokenHeaderBytes, '\0');
  std::memcpy(bytes.data(), header, sizeof(header));
  return bytes;
}

TokenShard::TokenShard(const std::filesystem::path& path, ElementType headerless)
    : file_(std::make_shared<const MappedFile>(path)),
      layout_(file_->read([&](std::span<const uint8_t> bytes) {
        return parse_token_file(bytes, headerless, file_->name());
      })) {
  file_->note_read(0);
}

std::span<const uint8_t> TokenShard::bytes_at(size_t begin, size_t count) const {
  check(begin <= size() && count <= size() - begin, "token range exceeds the shard");
  const auto width = bytes_of(layout_.type);
  return file_->bytes().subspan(layout_.begin + begin * width, count * width);
}

void TokenShard::copy(size_t begin, std::span<int64_t> out) const {
  check(begin <= size() && out.size() <= size() - begin, "token range exceeds the shard");
  const auto width = bytes_of(layout_.type);
  thread_local std::vector<uint8_t> buffer;
  const auto* from =
      file_->bytes_at(layout_.begin + begin * width, out.size() * width, buffer).data();
  if (layout_.type == ElementType::U16)
    copy_tokens<uint16_t>(from, out);
  else
    copy_tokens<uint32_t>(from, out);
}

std::vector<std::filesystem::path> token_files(const std::filesystem::path& path) {
  if (!is_folder(path)) return {without_options(path)};
  const auto files = list_files(path, [](const auto& file) { return file.extension() == ".bin"; });
  if (files.empty())
    throw config_error(
        fmt::format("{}: no *.bin files in this directory", printable(path.string(), 400)));
  return files;
}

}  // namespace lockstep::formats
