// Appends records to a .wandb file, the transaction log that W&B's own programs upload. The file is
// a header of 7 bytes (":W&B", 0xbee1 as little endian, version 0) and the blocks of a LevelDB log:
//
//   block = *chunk zero*     ; 32,768 bytes; the file's header counts in the first; at most 6 zeros
//   chunk = crc:u32 length:u16 type:u8 data
//           ; little endian; type 1: a whole record, 2: its first part, 3: a middle one, 4: its
//           last
//
// Unlike in LevelDB, crc is the plain CRC-32 of zlib, over type and data.
// Sources: https://github.com/google/leveldb/blob/main/doc/log_format.md, files of wandb 0.31.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "core/system/committed_file.h"

namespace lockstep::tracking {

class WandbFile {
 public:
  // Goes on behind the first `length` bytes of the file and cuts off the rest; 0 begins a new file.
  // Throws Config when the file has fewer bytes, Environment when it cannot be opened.
  WandbFile(std::filesystem::path path, uint64_t length);

  // Adds one record, a serialized `Record`. It is in the file after the next flush().
  void append(std::string_view record);

  // Writes and syncs what was appended. Throws Environment.
  void flush() { file_.flush(); }

  // Bytes, with those that were not flushed yet.
  uint64_t length() const { return file_.length(); }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  void append_chunk(uint8_t type, std::string_view data);
  void fill_block();

  CommittedFile file_;
};

}  // namespace lockstep::tracking
