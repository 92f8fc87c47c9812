// Writes the event log of one process. What an append returned from is kept even if the process is
// killed. Thread: the training thread only. An append is a copy into mapped memory: it waits for no
// disk and no reader.
//
// Failure: opening throws; afterwards nothing does. When the disk is full the log stops there, what
// comes later is counted by num_dropped(), and failure() says why.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/config_value.h"
#include "tracking/event_frame.h"
#include "tracking/mapped_append.h"
#include "tracking/record_codec.h"

namespace lockstep {

class EventLogWriter {
 public:
  // Creates the log, or continues one after cutting a torn tail; metric names keep their ids. Holds
  // an exclusive lock on the file as long as this object lives (or until close()): that is how
  // readers know that the run is alive. Throws Environment: cannot be created or locked, another
  // writer has it, it is no event log, the disk is full.
  explicit EventLogWriter(const std::filesystem::path& path);

  // First record of every writing process, also of one that continues a log.
  void identity(const RunInfo& info);
  void config(const Json& config);
  // A metric without a name, or with one of more than 512 bytes, is left out and counted as
  // dropped.
  void scalars(const ScalarRow& row);
  void text(const TextLine& text) { append(FrameType::Text, encode(text)); }
  void histogram(const Histogram& histogram) { append(FrameType::Histogram, encode(histogram)); }
  void image(const Image& image) { append(FrameType::Image, encode(image)); }
  void table(const Table& table) { append(FrameType::Table, encode(table)); }
  void alert(const Alert& alert) { append(FrameType::Alert, encode(alert)); }
  void artifact(const ArtifactUse& artifact) { append(FrameType::Artifact, encode(artifact)); }
  void console(const ConsoleLine& line) { append(FrameType::Console, encode(line)); }
  void heartbeat(double time);
  // Readers forget the scalars after `step`; their new values follow.
  void rewind(int64_t step);
  void summary(const Json& values);
  void end(const RunEnd& end);

  // Cuts the file to what was written, syncs it to the disk and gives up the lock. Later appends
  // are dropped.
  void close() noexcept { file_->close(true); }

  uint64_t num_dropped() const { return num_dropped_; }
  // Why something was dropped; empty when nothing was.
  const std::string& failure() const { return failure_; }

 private:
  void append(FrameType type, std::string_view payload);
  void append_header();
  std::optional<uint32_t> key_of(std::string_view name);
  void drop(const std::string& why);

  std::optional<MappedAppend> file_;
  std::map<std::string, uint32_t, std::less<>> keys_;
  uint32_t num_keys_ = 0;  // ids given so far
  std::string payload_;    // reused by scalars()
  uint64_t num_dropped_ = 0;
  std::string failure_;
};

}  // namespace lockstep
