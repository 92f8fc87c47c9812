#include "tracking/sinks/wandb/wandb_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <string>

#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

constexpr std::string_view kWandbHeader("\x3aW&B\xe1\xbe\x00", 7);
constexpr uint64_t kWandbBlock = 32'768;
constexpr uint64_t kWandbChunkHeader = 7;
constexpr uint8_t kWandbWhole = 1, kWandbFirst = 2, kWandbMiddle = 3, kWandbLast = 4;  // chunks

uint64_t room_in_wandb_block(uint64_t offset) { return kWandbBlock - offset % kWandbBlock; }

std::string wandb_chunk_header(uint8_t type, std::string_view data) {
  const auto* bytes = reinterpret_cast<const Bytef*>(data.data());
  const auto crc = ::crc32_z(::crc32(0, &type, 1), bytes, data.size());
  std::string header;
  for (int shift = 0; shift < 32; shift += 8) header += static_cast<char>(crc >> shift & 0xff);
  header += static_cast<char>(data.size() & 0xff);
  header += static_cast<char>(data.size() >> 8);
  header += static_cast<char>(type);
  return header;
}

}  // namespace

WandbFile::WandbFile(std::filesystem::path path, uint64_t length) : file_(std::move(path), length) {
  if (file_.length() < length)
    throw config_error(fmt::format(
        "{} has {} bytes, but {} were written: restore it, or remove sinks/wandb in the run's "
        "directory to upload the run again",
        file_.path().string(), file_.length(), length));
  if (length == 0) file_.append(kWandbHeader);
}

void WandbFile::append(std::string_view record) {
  for (bool is_first = true; is_first || !record.empty(); is_first = false) {
    fill_block();
    const auto part = record.substr(0, room_in_wandb_block(length()) - kWandbChunkHeader);
    record.remove_prefix(part.size());
    const bool is_last = record.empty();
    append_chunk(
        is_first ? (is_last ? kWandbWhole : kWandbFirst) : (is_last ? kWandbLast : kWandbMiddle),
        part);
  }
}

void WandbFile::append_chunk(uint8_t type, std::string_view data) {
  file_.append(wandb_chunk_header(type, data));
  file_.append(data);
}

// A chunk's header never crosses the end of a block.
void WandbFile::fill_block() {
  const auto room = room_in_wandb_block(length());
  if (room < kWandbChunkHeader) file_.append(std::string(room, '\0'));
}

}  // namespace lockstep::tracking
