#include "formats/tar/tar_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/printable.h"
#include "formats/file_kind.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;

constexpr size_t kBlockBytes = kTarHeaderBytes;
constexpr size_t kMaxExtensionBytes = 1 << 20;  // of a long name, or of pax records
constexpr size_t kMaxShownName = 400;

// Fields of a header block.
struct HeaderField {
  size_t at, size;
};
constexpr HeaderField kNameField{0, 100}, kSizeField{124, 12}, kChecksumField{148, 8},
    kMagicField{257, 6}, kPrefixField{345, 155};
constexpr size_t kTypeAt = 156;

std::string_view raw(std::string_view block, HeaderField field) {
  return block.substr(field.at, field.size);
}

std::string_view until_zero(std::string_view text) { return text.substr(0, text.find('\0')); }

bool is_zero(std::string_view bytes) { return bytes.find_first_not_of('\0') == bytes.npos; }

// Octal digits between spaces; none: 0.
std::optional<uint64_t> octal(std::string_view field) {
  auto text = until_zero(field);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  uint64_t value = 0;
  if (text.empty()) return value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Octal, or binary in base 256 if the first byte is 0x80.
std::optional<uint64_t> number(std::string_view field) {
  if (field.front() != '\x80') return octal(field);
  uint64_t value = 0;
  for (const auto byte : field.substr(1)) {
    if (value >> 56 != 0) return std::nullopt;
    value = value << 8 | static_cast<uint8_t>(byte);
  }
  return value;
}

// Some programs add the bytes as signed numbers.
bool has_right_checksum(std::string_view block) {
  const auto expected = octal(raw(block, kChecksumField));
  int64_t sum = 0, signed_sum = 0;
  for (size_t i = 0; i < kBlockBytes; ++i) {
    const bool is_checksum = i - kChecksumField.at < kChecksumField.size;
    const auto byte = is_checksum ? uint8_t{' '} : static_cast<uint8_t>(block[i]);
    sum += byte;
    signed_sum += static_cast<int8_t>(byte);
  }
  if (!expected || *expected > INT32_MAX) return false;
  const auto given = static_cast<int64_t>(*expected);
  return given == sum || given == signed_sum;
}

std::string name_in(std::string_view block) {
  std::string name(until_zero(raw(block, kNameField)));
  const auto prefix = until_zero(raw(block, kPrefixField));
  if (raw(block, kMagicField) == "ustar\0"sv && !prefix.empty())
    name = std::string(prefix) + "/" + name;
  return name;
}

const char* refused_type(char type) {
  switch (type) {
    case '1': return "a hard link";
    case '2': return "a symbolic link";
    case '3':
    case '4': return "a device";
    case '6': return "a pipe";
    case 'S': return "a sparse file";
    case 'M': return "a part of a file in several archives";
    default: return "a member of an unknown type";
  }
}

class TarParser {
 public:
  TarParser(std::span<const uint8_t> archive, const std::string& name)
      : bytes_(reinterpret_cast<const char*>(archive.data()), archive.size()), name_(name) {}

  void run(const std::function<void(const TarMember&)>& use) {
    for (;;) {
      const auto header = take_header();
      if (is_zero(header)) return verify_end();
      auto size = number(raw(header, kSizeField));
      if (!size) throw corrupt("a size that is not a number", begin_of_last());
      const auto type = header[kTypeAt];
      if (is_extension(type, header, *size)) continue;
      auto name = long_name_.value_or(name_in(header));
      size = long_size_.value_or(*size);
      long_name_.reset();
      long_size_.reset();
      // An old archive has a directory as a file whose name ends with a slash.
      const bool is_old_directory = type == '\0' && name.ends_with('/');
      if (type == '5' || is_old_directory) continue;
      if (type != '0' && type != '\0' && type != '7')
        throw refused(fmt::format("{}: it is {}: only regular files are supported",
                                  printable(name, kMaxShownName), refused_type(type)));
      const auto begin = at_;
      skip_content(*size, name);
      use({std::move(name), begin, static_cast<size_t>(*size)});
    }
  }

 private:
  Error refused(const std::string& why) const { return config_error(name_ + ": " + why); }
  Error corrupt(const std::string& why, size_t at) const {
    return refused(fmt::format("not a usable tar archive: the header at byte {} has {}", at, why));
  }
  size_t begin_of_last() const { return at_ - kBlockBytes; }

  std::string_view take_header() {
    if (bytes_.empty()) throw refused("it is empty");
    if (bytes_.size() - at_ < kBlockBytes && at_ > 0)
      throw refused("it is truncated: the archive has no end mark");
    const auto block = bytes_.substr(at_, kBlockBytes);
    if (block.size() == kBlockBytes && (is_zero(block) || has_right_checksum(block))) {
      at_ += kBlockBytes;
      return block;
    }
    if (at_ == 0) refuse_other_file();
    throw corrupt("a wrong checksum", at_);
  }

  [[noreturn]] void refuse_other_file() const {
    const auto* remedy = "decompress it: samples are read in any order";
    if (bytes_.starts_with("\x1F\x8B")) throw refused("it is compressed with gzip; "s + remedy);
    if (bytes_.starts_with("\x28\xB5\x2F\xFD"))
      throw refused("it is compressed with zstd; "s + remedy);
    if (const auto other = other_file_kind(bytes_))
      throw refused(fmt::format("it is {}, not a tar archive{}", other->name,
                                std::string_view(other->name).starts_with("compressed")
                                    ? "; "s + remedy
                                    : std::string()));
    throw refused("it is not a tar archive");
  }

  // The rest of the archive after its first empty block.
  void verify_end() const {
    const auto rest = bytes_.substr(at_);
    const auto other = rest.find_first_not_of('\0');
    if (other != rest.npos)
      throw refused(fmt::format(
          "there are data after the end of the archive, at byte {}; archives are joined by "
          "tar --concatenate, not by cat",
          at_ + other));
  }

  void skip_content(uint64_t size, const std::string& name) {
    const auto rest = bytes_.size() - at_;
    if (size > rest)
      throw refused(
          fmt::format("{}: it is truncated: {} bytes, but {} bytes of the archive are left",
                      printable(name, kMaxShownName), size, rest));
    const auto blocks = (size + kBlockBytes - 1) / kBlockBytes;
    at_ = static_cast<size_t>(std::min<uint64_t>(at_ + blocks * kBlockBytes, bytes_.size()));
  }

  // Takes a header that describes the next member; false: this is a member.
  bool is_extension(char type, std::string_view header, uint64_t size) {
    if ("LKxXgV"sv.find(type) == std::string_view::npos) return false;
    const auto begin = at_, place = begin_of_last();
    if (size > kMaxExtensionBytes)
      throw corrupt(fmt::format("an extension of {} bytes", size), place);
    skip_content(size, name_in(header));
    const auto content = bytes_.substr(begin, static_cast<size_t>(size));
    if (type == 'L') long_name_ = until_zero(content);
    if (type == 'x' || type == 'X' || type == 'g') take_records(content, type == 'g', place);
    return true;
  }

  // Lines "LENGTH KEY=VALUE\n".
  void take_records(std::string_view records, bool are_global, size_t place) {
    while (!records.empty()) {
      size_t length = 0;
      const auto [end, error] =
          std::from_chars(records.data(), records.data() + records.size(), length);
      const auto begin = static_cast<size_t>(end - records.data()) + 1;
      if (error != std::errc() || length > records.size() || length <= begin ||
          records[begin - 1] != ' ' || records[length - 1] != '\n')
        throw corrupt("an invalid pax record", place);
      const auto record = records.substr(begin, length - begin - 1);
      const auto equals = record.find('=');
      if (equals == record.npos) throw corrupt("a pax record without a value", place);
      take_record(record.substr(0, equals), record.substr(equals + 1), are_global, place);
      records.remove_prefix(length);
    }
  }

  void take_record(std::string_view key, std::string_view value, bool is_global, size_t place) {
    if (key.starts_with("GNU.sparse."))
      throw refused(
          fmt::format("the member at byte {} is a sparse file: only regular files are "
                      "supported",
                      place));
    if ((key != "path" && key != "size") || value.empty()) return;
    if (is_global) throw corrupt(fmt::format("a pax record '{}' for all members", key), place);
    if (key == "path") {
      long_name_ = value;
      return;
    }
    uint64_t size = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (error != std::errc() || end != value.data() + value.size())
      throw corrupt("a size that is not a number", place);
    long_size_ = size;
  }

  std::string_view bytes_;
  const std::string& name_;
  size_t at_ = 0;
  std::optional<std::string> long_name_;  // of the next member
  std::optional<uint64_t> long_size_;
};

}  // namespace

void for_each_tar_member(std::span<const uint8_t> archive, const std::string& name,
                         const std::function<void(const TarMember&)>& use) {
  TarParser(archive, name).run(use);
}

std::string tar_name_at(std::span<const uint8_t> archive, size_t begin) {
  check(begin >= kBlockBytes && begin <= archive.size(), "not the content of a tar member");
  return name_in(
      {reinterpret_cast<const char*>(archive.data()) + begin - kBlockBytes, kBlockBytes});
}

}  // namespace lockstep::formats
