// The file of events that TensorBoard reads: records of length:u64 crc(length):u32 event
// crc(event):u32, little endian, with masked CRC-32C; an event is a message of
// tensorboard/compat/proto/event.proto.
#pragma once

#include <filesystem>
#include <string>

#include "core/system/committed_file.h"
#include "lockstep/config_value.h"
#include "lockstep/run_info.h"
#include "tracking/sinks/protobuf_writer.h"

namespace lockstep::tracking::tensorboard {

// An event as a record of the file.
std::string framed(std::string_view event);

// Thread: one at a time. Every call may throw Environment.
class EventFile {
 public:
  // `directory`: of this file alone, for TensorBoard takes it for a run. `state`: of flush(), or
  // null: the file begins anew, under the name that it has if it is there.
  EventFile(const std::filesystem::path& directory, const RunInfo& info, const Json& state);

  // Whether nothing but the beginning of every file is in it.
  bool is_new() const { return is_new_; }

  // `value`: a Summary.Value. `time`: unix seconds.
  void add(double time, int64_t step, const ProtobufWriter& value);

  // Makes readers forget what has `step` or a later one.
  void restart(double time, int64_t step);

  // The last one, unless the run goes on: then it is made void. Readers keep the first end they
  // see, and one that is reading must find the next record where the file ended.
  void add_end(double time, const ProtobufWriter& value);

  // Returns {"file": name, "length": bytes, "end": bytes of the end or 0}.
  Json flush();

 private:
  void append(const ProtobufWriter& event);
  void void_end();

  CommittedFile file_;
  uint64_t end_bytes_ = 0;
  bool is_new_ = false;
};

}  // namespace lockstep::tracking::tensorboard
