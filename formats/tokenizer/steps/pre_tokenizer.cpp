#include "formats/tokenizer/steps/pre_tokenizer.h"

#include <algorithm>

#include "formats/tokenizer/text/byte_alphabet.h"
#include "formats/tokenizer/text/json_kinds.h"
#include "formats/tokenizer/text/pattern.h"
#include "formats/tokenizer/text/unicode.h"

namespace lockstep::formats {
namespace {

// Splits at single characters.
template <class Is>
void split_at(const Piece& piece, Delimiter kind, const PieceUse& use, const Is& is_delimiter) {
  Splitting splitting(piece, kind, use);
  size_t done = 0;
  for (size_t at = 0; at < piece.text.size();) {
    const auto begin = at;
    if (!is_delimiter(next_character(piece.text, at))) continue;
    if (begin > done) splitting.add(done, begin, false);
    splitting.add(begin, at, true);
    done = at;
  }
  if (done < piece.text.size()) splitting.add(done, piece.text.size(), false);
  splitting.finish();
}

class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(bool (*is_delimiter)(char32_t), Delimiter kind)
      : is_delimiter_(is_delimiter), kind_(kind) {}
  void split(const Piece& piece, const PieceUse& use) const override {
    split_at(piece, kind_, use, is_delimiter_);
  }

 private:
  bool (*is_delimiter_)(char32_t);
  Delimiter kind_;
};

class DelimiterSplit : public PreTokenizer {
 public:
  explicit DelimiterSplit(const JsonPart& json)
      : delimiter_(first_character(json.character("delimiter"))) {}
  void split(const Piece& piece, const PieceUse& use) const override {
    split_at(piece, Delimiter::Removed, use, [this](char32_t c) { return c == delimiter_; });
  }

 private:
  char32_t delimiter_;
};

class BertSplit : public PreTokenizer {
 public:
  void split(const Piece& piece, const PieceUse& use) const override {
    const auto punctuation = [&](const Piece& word) {
      split_at(word, Delimiter::Isolated, use, is_punctuation);
    };
    split_at(piece, Delimiter::Removed, punctuation, is_white_space);
  }
};

// Runs of word characters, and runs of other characters that are not white space.
class WordSplit : public PreTokenizer {
 public:
  void split(const Piece& piece, const PieceUse& use) const override {
    const auto text = piece.text;
    const auto kind = [](char32_t c) {
      return is_word_character(c) ? Word : is_white_space(c) ? Space : Other;
    };
    for (size_t at = 0; at < text.size();) {
      const auto begin = at;
      const auto first = kind(next_character(text, at));
      for (auto next = at; next < text.size() && kind(next_character(text, next)) == first;)
        at = next;
      if (first != Space) use(Piece{text.substr(begin, at - begin), piece.is_start && begin == 0});
    }
  }

 private:
  enum Kind { Word, Space, Other };
};

class PatternSplit : public PreTokenizer {
 public:
  explicit PatternSplit(const JsonPart& json)
      : pattern_(Pattern::of(json.part("pattern"))),
        kind_(delimiter_of(json, "behavior", std::nullopt)),
        inverted_(json.flag("invert")) {}
  void split(const Piece& piece, const PieceUse& use) const override {
    Splitting splitting(piece, kind_, use);
    pattern_.parts(piece.text, [&](size_t begin, size_t end, bool is_match) {
      splitting.add(begin, end, is_match != inverted_);
    });
    splitting.finish();
  }

 private:
  Pattern pattern_;
  Delimiter kind_;
  bool inverted_;
};

class ByteLevelSplit : public PreTokenizer {
 public:
  explicit ByteLevelSplit(const JsonPart& json) : prefix_(json.flag("add_prefix_space")) {
    if (json.flag("use_regex", true)) pattern_.emplace(Pattern::regex(kGpt2Pattern));
  }
  void split(const Piece& piece, const PieceUse& use) const override {
    std::string with_space;
    Piece whole = piece;
    if (prefix_ && !piece.text.starts_with(' ')) {
      with_space.reserve(piece.text.size() + 1);
      with_space = ' ';
      with_space += piece.text;
      whole.text = with_space;
    }
    if (!pattern_) return map(whole, use);
    const auto mapped = [&](const Piece& word) { map(word, use); };
    const PieceUse use_mapped = mapped;
    Splitting splitting(whole, Delimiter::Isolated, use_mapped);
    pattern_->parts(whole.text, [&](size_t begin, size_t end, bool is_match) {
      splitting.add(begin, end, is_match);
    });
    splitting.finish();
  }

 private:
  static void map(const Piece& piece, const PieceUse& use) {
    char buffer[128];  // most words
    if (2 * piece.text.size() <= sizeof buffer)
      return use(Piece{{buffer, to_byte_alphabet(piece.text, buffer)}, piece.is_start});
    use(Piece{to_byte_alphabet(piece.text), piece.is_start});
  }

  bool prefix_;
  std::optional<Pattern> pattern_;
};

class MetaspaceSplit : public PreTokenizer {
 public:
  explicit MetaspaceSplit(const JsonPart& json)
      : mark_(json.character("replacement")), splits_(json.flag("split", true)) {
    const auto scheme = json.text("prepend_scheme", "always");
    if (scheme != "first" && scheme != "never" && scheme != "always")
      throw json.refused("prepend_scheme is not one of first, never, always");
    const bool never = scheme == "never" || !json.flag("add_prefix_space", true);
    prepend_ = never ? Prepend::Never : scheme == "first" ? Prepend::First : Prepend::Always;
  }

  void split(const Piece& piece, const PieceUse& use) const override {
    std::string text;
    text.reserve(piece.text.size() + piece.text.size() / 2 + mark_.size());
    const bool has_mark = piece.text.starts_with(' ') || piece.text.starts_with(mark_);
    if (!has_mark &&
        (prepend_ == Prepend::Always || (prepend_ == Prepend::First && piece.is_start)))
      text = mark_;
    for (const auto byte : piece.text)
      if (byte == ' ')
        text += mark_;
      else
        text += byte;
    const Piece whole{text, piece.is_start};
    if (!splits_) return use(whole);
    for (size_t begin = 0; begin < text.size();) {
      const auto end = std::min(text.find(mark_, begin + 1), text.size());
      use(Piece{whole.text.substr(begin, end - begin), piece.is_start && begin == 0});
      begin = end;
    }
  }

 private:
  enum class Prepend { First, Never, Always };
  std::string mark_;
  Prepend prepend_ = Prepend::Always;
  bool splits_;
};

class FixedLengthSplit : public PreTokenizer {
 public:
  explicit FixedLengthSplit(const JsonPart& json)
      : length_(json.number("length", 1, INT32_MAX, 5)) {}
  void split(const Piece& piece, const PieceUse& use) const override {
    for (size_t at = 0; at < piece.text.size();) {
      const auto begin = at;
      for (int64_t i = 0; i < length_ && at < piece.text.size(); ++i)
        at = std::min(at + utf8_size(piece.text[at]), piece.text.size());
      use(Piece{piece.text.substr(begin, at - begin), piece.is_start && begin == 0});
    }
  }

 private:
  int64_t length_;
};

class SequenceSplit : public PreTokenizer {
 public:
  explicit SequenceSplit(const JsonPart& json)
      : steps_(make_all(json, "pretokenizers", make_pre_tokenizer)) {}
  void split(const Piece& piece, const PieceUse& use) const override { split_from(0, piece, use); }

 private:
  void split_from(size_t step, const Piece& piece, const PieceUse& use) const {
    if (step == steps_.size()) return use(piece);
    if (step + 1 == steps_.size()) return steps_[step]->split(piece, use);
    const auto next = [&](const Piece& smaller) { split_from(step + 1, smaller, use); };
    steps_[step]->split(piece, next);
  }
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

std::unique_ptr<PreTokenizer> new_white_space(const JsonPart&) {
  return std::make_unique<CharacterSplit>(is_white_space, Delimiter::Removed);
}

std::unique_ptr<PreTokenizer> new_digits(const JsonPart& json) {
  return std::make_unique<CharacterSplit>(
      is_numeric, json.flag("individual_digits") ? Delimiter::Isolated : Delimiter::Contiguous);
}

std::unique_ptr<PreTokenizer> new_punctuation(const JsonPart& json) {
  return std::make_unique<CharacterSplit>(is_punctuation,
                                          delimiter_of(json, "behavior", Delimiter::Isolated));
}

}  // namespace

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonPart& json) {
  static const JsonKinds<PreTokenizer> kinds = {
      {"BertPreTokenizer", make_kind<PreTokenizer, BertSplit>},
      {"ByteLevel", make_kind<PreTokenizer, ByteLevelSplit>},
      {"CharDelimiterSplit", make_kind<PreTokenizer, DelimiterSplit>},
      {"Digits", new_digits},
      {"FixedLength", make_kind<PreTokenizer, FixedLengthSplit>},
      {"Metaspace", make_kind<PreTokenizer, MetaspaceSplit>},
      {"Punctuation", new_punctuation},
      {"Sequence", make_kind<PreTokenizer, SequenceSplit>},
      {"Split", make_kind<PreTokenizer, PatternSplit>},
      {"Whitespace", make_kind<PreTokenizer, WordSplit>},
      {"WhitespaceSplit", new_white_space},
  };
  return json.is_null() ? nullptr : make_any(kinds, json);
}

}  // namespace lockstep::formats
