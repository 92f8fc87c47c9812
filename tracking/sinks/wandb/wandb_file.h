// Appends records to a .wandb file, the transaction log that W&B's programs upload. The file is a
// header of 7 bytes (":W&B", 0xbee1 as little endian, version 0) and the blocks of a LevelDB log:
//
//   block = *chunk zero*     ; 32,768 bytes; the file's header counts in the first; at most 6 zeros
//   chunk = crc:u32 length:u16 type:u8 data
//           ; little endian; type 1: whole record, 2: first part, 3: middle part, 4: last part
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
  // Truncates the file to `length` bytes and appends to it; 0 starts a new file. Throws Config if
  // the file is shorter, Environment if it cannot be opened.
  WandbFile(std::filesystem::path path, uint64_t length);

  // Appends one serialized `Record`. It is written by the next flush().
  void append(std::string_view record);

  // Writes and syncs the appended records. Throws Environment.
  void flush() { file_.flush(); }

  // In bytes, including records that are not flushed yet.
  uint64_t length() const { return file_.length(); }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  void append_chunk(uint8_t type, std::string_view data);
  void fill_block();

  CommittedFile file_;
};

}  // namespace lockstep::tracking
