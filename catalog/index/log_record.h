// Single records of an event log, by their place in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "tracking/log/record_codec.h"

namespace lockstep {

// The record that ends at byte `end` of the log, all segments counted, as LogTail::offset() counts
// them; it begins at or behind `begin`. nullopt when there is none. Throws Environment when the log
// cannot be read.
std::optional<Record> read_log_record(const std::filesystem::path& log, uint64_t begin,
                                      uint64_t end);

// The lines that ranks printed, of the records between bytes `begin` and `end` of the log. Throws
// Environment when the log cannot be read.
void visit_console_lines(const std::filesystem::path& log, uint64_t begin, uint64_t end,
                         const std::function<void(const ConsoleLine&)>& take);

}  // namespace lockstep
