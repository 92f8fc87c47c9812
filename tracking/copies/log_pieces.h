// How a bucket has an event log: as pieces, objects that do not change, "events/SEGMENT/BEGIN-END" with
// the bytes from BEGIN to END. A longer piece with the same beginning replaces a shorter one, which is
// removed before the next one is written, so that the log can be read at any moment.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/store/object_store.h"

namespace lockstep::tracking {

// A piece is replaced until it has this many bytes, and then the next one begins.
inline constexpr uint64_t kLogPieceBytes = 1u << 20;

struct LogPiece {
  uint64_t begin = 0, end = 0;
  formats::ObjectInfo object;
};

// The pieces of each segment that can be among these objects, whose names begin with "events/", by the
// name of its file. Names are untrusted; objects with others, or other sizes, are skipped.
std::map<std::string, std::vector<LogPiece>> log_pieces(
    const std::vector<formats::ObjectInfo>& objects);

// Those that the log consists of, in order from 0; the rest was replaced, or follows a gap.
std::vector<LogPiece> without_replaced(const std::vector<LogPiece>& pieces);

// Bytes of the log.
inline uint64_t size_of_pieces(const std::vector<LogPiece>& pieces) {
  return pieces.empty() ? 0 : pieces.back().end;
}

std::string folder_of_segment(const std::string& segment);
std::string piece_name(const std::string& segment, uint64_t begin, uint64_t end);

}  // namespace lockstep::tracking
