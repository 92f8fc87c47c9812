#include "tracking/log/line_file.h"

#include <limits>

#include "core/system/durable_file.h"

namespace lockstep::tracking {

LineFile::LineFile(Paths paths, const Json& state, KeepUpTo keep)
    : paths_(std::move(paths)), keep_(keep) {
  uint64_t length = 0;
  if (state.is_object()) {
    rewinds_ = state.at("rewinds");
    length = state.at("length");
    if (const auto noted = noted_length()) length = *noted;
  }
  file_.emplace(paths_.file, length);
}

std::optional<uint64_t> LineFile::noted_length() {
  std::error_code ignored;
  if (!std::filesystem::exists(paths_.note, ignored)) return std::nullopt;
  const auto note = Json::parse(read_file(paths_.note), nullptr, false);
  noted_ = note.is_object() && note.value("rewinds", int64_t{-1}) == rewinds_;
  return noted_ ? std::optional(note.value("length", uint64_t{0})) : std::nullopt;
}

void LineFile::rewind(int64_t step) {
  file_->unflushed() = keep_(file_->unflushed(), step);
  rewind_to_ = std::min(step, rewind_to_.value_or(step));
}

Json LineFile::flush() {
  if (rewind_to_) rewind_file(*rewind_to_);
  file_->flush();
  rewind_to_.reset();
  if (noted_) ++rewinds_;
  noted_ = false;
  return {{"length", file_->flushed_length()}, {"rewinds", rewinds_}};
}

// See Note [Rewinding a file with a committed length].
void LineFile::rewind_file(int64_t step) {
  constexpr auto kAnySize = std::numeric_limits<size_t>::max();
  const auto kept = keep_(read_file(paths_.file, kAnySize), step);
  const auto unflushed = std::move(file_->unflushed());
  write_file_durably(paths_.file, kept);
  file_.emplace(paths_.file, kept.size());
  file_->append(unflushed);
  write_file_durably(paths_.note, Json{{"rewinds", rewinds_}, {"length", kept.size()}}.dump());
  noted_ = true;
}

}  // namespace lockstep::tracking
