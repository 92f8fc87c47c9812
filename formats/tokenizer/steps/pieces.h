// The parts that a text is split into before each of them becomes tokens.
#pragma once

#include <optional>
#include <string_view>
#include <type_traits>

#include "formats/tokenizer/text/json_part.h"

namespace lockstep::formats {

struct Piece {
  std::string_view text;  // UTF-8, not empty
  bool is_start = false;  // whether the whole text begins with it
};

// A reference to a callable that takes a piece; it must exist as long as the reference.
class PieceUse {
 public:
  template <class Use>
  requires(!std::is_same_v<std::remove_cvref_t<Use>, PieceUse>) PieceUse(const Use& use)
      : use_(&use), call_([](const void* target, const Piece& piece) {
          (*static_cast<const Use*>(target))(piece);
        }) {}
  void operator()(const Piece& piece) const { call_(use_, piece); }

 private:
  const void* use_;
  void (*call_)(const void*, const Piece&);
};

// What happens with a delimiter: it is dropped, a piece on its own, part of the piece before or
// after it, or a piece together with adjacent delimiters.
enum class Delimiter { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

// The value of `key`. Throws Config.
Delimiter delimiter_of(const JsonPart& json, const char* key, std::optional<Delimiter> otherwise);

// Turns consecutive parts of a piece, delimiters and others, into pieces.
class Splitting {
 public:
  Splitting(const Piece& piece, Delimiter kind, const PieceUse& use)
      : piece_(piece), kind_(kind), use_(use) {}

  // The next part, [begin, end) of the piece's text.
  void add(size_t begin, size_t end, bool is_delimiter);
  // To be called after the last part.
  void finish();

 private:
  void emit(size_t begin, size_t end) const;
  void hold(size_t begin, size_t end);

  const Piece& piece_;
  Delimiter kind_;
  const PieceUse& use_;
  bool holds_ = false, last_delimiter_ = false;
  size_t begin_ = 0, end_ = 0;  // the part that the next one may be added to
};

}  // namespace lockstep::formats
