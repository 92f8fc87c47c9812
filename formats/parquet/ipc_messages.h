// Finds the messages of an Arrow IPC stream without decoding their bodies.
// Source: the Arrow columnar format, "Serialization and Interprocess Communication (IPC)".
#pragma once

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/message.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/parquet/arrow_errors.h"
#include "formats/parquet/flat_table.h"
#include "lockstep/error.h"

namespace lockstep::formats {

inline constexpr const char* kIpcFormat = "Arrow";

inline Error ipc_error(const std::string& name, const std::string& why) {
  return config_error(fmt::format("{}: not a usable Arrow file: {}", name, why));
}

template <class T>
T accepted(arrow::Result<T> result, const std::string& name) {
  accept(result.status(), name, kIpcFormat);
  return std::move(result).ValueUnsafe();
}

inline FlatTable header_of(const arrow::ipc::Message& message, const std::string& name) {
  if (!message.header()) throw ipc_error(name, "a message has no header");
  return FlatTable(message.header());
}

// The fields of the table RecordBatch: rows, buffers, compression. DictionaryBatch has one as field 1.
inline constexpr int kBatchRows = 0, kBatchBuffers = 2, kBatchCompression = 3, kDictionaryData = 1;

// The bytes of a batch's buffers after decompression, as they claim.
inline int64_t unpacked_bytes(const arrow::ipc::Message& message, const std::string& name) {
  const auto header = header_of(message, name);
  const bool is_dictionary = message.type() == arrow::ipc::MessageType::DICTIONARY_BATCH;
  if (is_dictionary && !header.has(kDictionaryData))
    throw ipc_error(name, "a dictionary without data");
  const auto batch = is_dictionary ? header.table(kDictionaryData) : header;
  const auto body = message.body();
  const auto size = body ? body->size() : 0;
  int64_t sum = 0;
  for (const auto& [offset, length] : batch.ranges(kBatchBuffers)) {
    if (offset < 0 || length < 0 || offset > size || length > size - offset)
      throw ipc_error(name, "a buffer is outside of its message");
    int64_t bytes = length;
    if (batch.has(kBatchCompression) && length >= static_cast<int64_t>(sizeof(bytes))) {
      int64_t unpacked = 0;
      std::memcpy(&unpacked, body->data() + offset, sizeof(unpacked));
      if (unpacked >= 0) bytes = unpacked;
    }
    if (__builtin_add_overflow(sum, bytes, &sum)) return std::numeric_limits<int64_t>::max();
  }
  return sum;
}

// A message with a body.
struct IpcMessage {
  int64_t begin = 0;  // in the file
  int64_t rows = 0;   // of a record batch
};

struct IpcMessages {
  std::unique_ptr<arrow::ipc::Message> schema;  // of a stream
  std::vector<IpcMessage> batches;
  std::vector<IpcMessage> dictionaries;
  bool is_compressed = false;          // some record batch
  bool has_late_dictionaries = false;  // after the first record batch
};

// The fields of the table Footer, which has one block for each message with a body.
inline constexpr int kFooterDictionaries = 2, kFooterBatches = 3;
inline constexpr int64_t kFooterEnd = 10;  // the length of the footer and "ARROW1"

// The first message with a body in a file whose footer Arrow has verified; nullopt: there is none.
inline std::optional<int64_t> first_block(const arrow::Buffer& file) {
  const auto* end = file.data() + file.size() - kFooterEnd;
  int32_t length = 0;
  std::memcpy(&length, end, sizeof(length));
  const auto footer = FlatTable::root(end - length);
  auto offsets = footer.block_offsets(kFooterBatches);
  for (const auto offset : footer.block_offsets(kFooterDictionaries)) offsets.push_back(offset);
  if (offsets.empty()) return std::nullopt;
  return *std::ranges::min_element(offsets);
}

// The messages from `begin` on. `has_schema`: they begin with the schema, as in a stream. Throws
// Config.
inline IpcMessages find_messages(const std::shared_ptr<arrow::Buffer>& file, int64_t begin,
                                 bool has_schema, const std::string& name) {
  IpcMessages found;
  arrow::io::BufferReader stream(file);
  accept(stream.Seek(begin), name, kIpcFormat);
  for (;;) {
    const auto at = accepted(stream.Tell(), name);
    if (at == file->size())
      throw ipc_error(name,
                      "it has no end mark: it was truncated, or its writer was not closed; close "
                      "the writer, or write it again");
    auto message = accepted(arrow::ipc::ReadMessage(&stream), name);
    if (!message) break;  // end mark
    const auto type = message->type();
    if (has_schema && !found.schema) {
      if (type != arrow::ipc::MessageType::SCHEMA) throw ipc_error(name, "it has no schema");
      found.schema = std::move(message);
    } else if (type == arrow::ipc::MessageType::RECORD_BATCH) {
      const auto batch = header_of(*message, name);
      found.batches.push_back({at, batch.number(kBatchRows)});
      found.is_compressed |= batch.has(kBatchCompression);
    } else if (type == arrow::ipc::MessageType::DICTIONARY_BATCH) {
      found.dictionaries.push_back({at, 0});
      found.has_late_dictionaries |= !found.batches.empty();
    } else {
      throw ipc_error(name, "it has messages that are not record batches");
    }
  }
  if (has_schema && !found.schema) throw ipc_error(name, "it has no schema");
  return found;
}

}  // namespace lockstep::formats
