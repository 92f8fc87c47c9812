#include "tracking/log/line_file.h"

#include <limits>

#include "core/system/durable_file.h"

namespace lockstep::tracking {

LineFile::LineFile(Places places, const Json& state, KeepUpTo keep)
    : places_(std::move(places)), keep_(keep) {
  uint64_t length = 0;
  if (state.is_object()) {
    rewinds_ = state.at("rewinds");
    length = state.at("length");
    if (const auto noted = noted_length()) length = *noted;
  }
  file_.emplace(places_.file, length);
}

std::optional<uint64_t> LineFile::noted_length() {
  std::error_code ignored;
  if (!std::filesystem::exists(places_.note, ignored)) return std::nullopt;
  const auto note = Json::parse(read_file(places_.note), nullptr, false);
  noted_ = note.is_object() && note.value("rewinds", int64_t{-1}) == rewinds_;
  return noted_ ? std::optional(note.value("length", uint64_t{0})) : std::nullopt;
}

void LineFile::rewind(int64_t step) {
  file_->unflushed() = keep_(file_->unflushed(), step);
  rewind_to_ = std::min(step, rewind_to_.value_or(step));
}

Json LineFile::flush() {
  if (rewind_to_) take_back(*rewind_to_);
  file_->flush();
  rewind_to_.reset();
  if (noted_) ++rewinds_;
  noted_ = false;
  return {{"length", file_->flushed_length()}, {"rewinds", rewinds_}};
}

// See Note [Taking back in a file whose length is agreed upon].
void LineFile::take_back(int64_t step) {
  constexpr auto kAnySize = std::numeric_limits<size_t>::max();
  const auto kept = keep_(read_file(places_.file, kAnySize), step);
  const auto unflushed = std::move(file_->unflushed());
  write_file_durably(places_.file, kept);
  file_.emplace(places_.file, kept.size());
  file_->append(unflushed);
  write_file_durably(places_.note, Json{{"rewinds", rewinds_}, {"length", kept.size()}}.dump());
  noted_ = true;
}

}  // namespace lockstep::tracking
