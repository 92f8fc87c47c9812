// Reads messages in the Protocol Buffers wire format, field by field and without schemas: the
// responses of wandb-core and of OTLP receivers.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::tracking {

struct ProtobufField {
  int number = 0;
  uint64_t value = 0;      // of a varint or a fixed width field, as its bits
  std::string_view bytes;  // of a string, bytes or message field
};

class ProtobufReader {
 public:
  // `message` must outlive the reader and the fields.
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  // Returns the next field, or nullopt at the end. Throws Environment if the message is malformed.
  std::optional<ProtobufField> next();

 private:
  uint64_t varint();
  std::string_view read_bytes(uint64_t size);
  uint64_t fixed(size_t size);

  std::string_view rest_;
};

}  // namespace lockstep::tracking
