#include "formats/zip_file.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <array>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr int64_t kMaxMembers = 100'000;
constexpr size_t kReadBytes = 1u << 20;

Error bad_zip(const std::string& name, const std::string& why) {
  return config_error(fmt::format("{}: not a usable zip archive: {}", name, why));
}

struct ClosedMember {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};

}  // namespace

struct ZipFile::Archive {
  zip_t* zip = nullptr;
  ~Archive() {
    if (zip) zip_discard(zip);
  }
};

ZipFile::ZipFile(std::span<const uint8_t> bytes, std::string name)
    : archive_(std::make_unique<Archive>()), bytes_(bytes), name_(std::move(name)) {
  zip_error_t error;
  zip_error_init(&error);
  auto* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (source) archive_->zip = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  const std::string why = archive_->zip ? "" : zip_error_strerror(&error);
  if (!archive_->zip && source) zip_source_free(source);
  zip_error_fini(&error);
  if (!archive_->zip) throw bad_zip(name_, printable(why));
  if (zip_get_num_entries(archive_->zip, 0) > kMaxMembers)
    throw bad_zip(name_, fmt::format("it has more than {} members", kMaxMembers));
}

ZipFile::~ZipFile() = default;

std::vector<std::string> ZipFile::members() const {
  std::vector<std::string> names;
  const auto count = zip_get_num_entries(archive_->zip, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const auto* member =
        zip_get_name(archive_->zip, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_GUESS);
    if (!member) throw bad_zip(name_, fmt::format("member {} has no name", i));
    names.emplace_back(member);
  }
  return names;
}

void ZipFile::fail(size_t index, const char* why) const {
  const auto* member = zip_get_name(archive_->zip, index, ZIP_FL_ENC_GUESS);
  throw bad_zip(name_,
                fmt::format("member '{}': {}", printable(member ? member : ""), printable(why)));
}

bool ZipFile::is_stored(size_t index) const {
  zip_stat_t status;
  return zip_stat_index(archive_->zip, index, 0, &status) == 0 &&
         status.comp_method == ZIP_CM_STORE && status.encryption_method == ZIP_EM_NONE;
}

std::vector<uint8_t> ZipFile::read(size_t index, uint64_t max_bytes) const {
  zip_stat_t status;
  if (zip_stat_index(archive_->zip, index, 0, &status) != 0 || !(status.valid & ZIP_STAT_SIZE))
    fail(index, "its size is unknown");
  if (status.size > max_bytes) fail(index, "it is too large");
  const std::unique_ptr<zip_file_t, ClosedMember> file(zip_fopen_index(archive_->zip, index, 0));
  if (!file) fail(index, zip_strerror(archive_->zip));
  // Memory grows with the actual data: the size in the header is untrusted.
  std::vector<uint8_t> content;
  while (content.size() <= status.size) {
    const auto at = content.size();
    content.resize(at + std::min<uint64_t>(kReadBytes, status.size - at + 1));
    const auto count = zip_fread(file.get(), content.data() + at, content.size() - at);
    if (count < 0) fail(index, zip_file_strerror(file.get()));
    content.resize(at + static_cast<size_t>(count));
    if (count == 0) break;
  }
  if (content.size() != status.size) fail(index, "its size does not match the archive directory");
  return content;
}

// libzip does not say where a member is. Members follow each other from the beginning; their sizes,
// which libzip has compared with the central directory, lead from one header to the next.
// Source: the local file header in APPNOTE.TXT of the zip format, section 4.3.7.
std::span<const uint8_t> ZipFile::stored(size_t index) const {
  constexpr size_t kHeaderBytes = 30;
  constexpr std::array<uint8_t, 4> kSignature = {'P', 'K', 3, 4};
  auto rest = bytes_;
  for (size_t i = 0;; ++i) {
    zip_stat_t status;
    if (zip_stat_index(archive_->zip, i, 0, &status) != 0 || !(status.valid & ZIP_STAT_COMP_SIZE))
      fail(index, "its size is unknown");
    if (rest.size() < kHeaderBytes || !std::ranges::equal(rest.first(4), kSignature))
      fail(index, "its position is unknown");
    const auto number = [&](size_t at) { return size_t{rest[at]} | size_t{rest[at + 1]} << 8; };
    const auto begin = kHeaderBytes + number(26) + number(28);  // name and extra field
    if (begin > rest.size() || status.comp_size > rest.size() - begin)
      fail(index, "it is longer than the archive");
    if (i < index) {
      rest = rest.subspan(begin + status.comp_size);
      continue;
    }
    if (!is_stored(index)) fail(index, "it is compressed or encrypted");
    return rest.subspan(begin, status.comp_size);
  }
}

}  // namespace lockstep::formats
