// TensorBoard event file: records of length:u64 crc(length):u32 event crc(event):u32, little
// endian, with masked CRC-32C. An event is a message of tensorboard/compat/proto/event.proto.
#pragma once

#include <filesystem>
#include <string>

#include "core/system/committed_file.h"
#include "lockstep/config_value.h"
#include "lockstep/run_info.h"
#include "tracking/sinks/protobuf_writer.h"

namespace lockstep::tracking::tensorboard {

// Frames an event as a record of the file.
std::string framed(std::string_view event);

// Not thread-safe. Every call may throw Environment.
class EventFile {
 public:
  // `directory` must hold only this file: TensorBoard treats each directory as a run. `state` is
  // the result of flush(); null truncates an existing file or creates a new one.
  EventFile(const std::filesystem::path& directory, const RunInfo& info, const Json& state);

  // Whether the file contains only its header event.
  bool is_new() const { return is_new_; }

  // `value` is a Summary.Value, `time` in unix seconds.
  void add(double time, int64_t step, const ProtobufWriter& value);

  // Makes readers discard values of `step` and later.
  void restart(double time, int64_t step);

  // Adds the last event. If the run is resumed, the event is overwritten with an empty one of the
  // same size: readers keep the first end event, and expect the next record where the file ended.
  void add_end(double time, const ProtobufWriter& value);

  // Returns {"file": name, "length": bytes, "end": bytes of the end or 0}.
  Json flush();

 private:
  void append(const ProtobufWriter& event);
  void overwrite_end();

  CommittedFile file_;
  uint64_t end_bytes_ = 0;
  bool is_new_ = false;
};

}  // namespace lockstep::tracking::tensorboard
