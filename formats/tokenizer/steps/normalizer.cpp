#include "formats/tokenizer/steps/normalizer.h"

#include "formats/tokenizer/steps/charsmap.h"
#include "formats/tokenizer/text/byte_alphabet.h"
#include "formats/tokenizer/text/json_kinds.h"
#include "formats/tokenizer/text/pattern.h"
#include "formats/tokenizer/text/unicode.h"

namespace lockstep::formats {
namespace {

constexpr size_t kMaxGrowth = 256;

// Replaces each character by what `use(out, character)` appends.
template <class Use>
void map_characters(NormalText& text, const Use& use) {
  std::string out;
  out.reserve(text.text.size() + text.text.size() / 4);
  for (size_t at = 0; at < text.text.size();) {
    const bool is_first = at == 0;
    use(out, next_character(text.text, at));
    if (is_first && out.empty()) text.from_start = false;
  }
  text.text = std::move(out);
}

template <class Drop>
void drop_characters(NormalText& text, const Drop& drop) {
  if (is_ascii(text.text)) return;  // no ASCII character is a mark
  map_characters(text, [&](std::string& out, char32_t c) {
    if (!drop(c)) append_character(out, c);
  });
}

void lower_characters(NormalText& text) {
  map_characters(text, [](std::string& out, char32_t c) { append_lower(out, c); });
}

class UnicodeNormalizer : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalForm form) : form_(form) {}
  void apply(NormalText& text) const override {
    if (!is_ascii(text.text)) text.text = normalized(text.text, form_);
  }

 private:
  NormalForm form_;
};

// A normalizer without parameters.
class FixedNormalizer : public Normalizer {
 public:
  explicit FixedNormalizer(void (*change)(NormalText&)) : change_(change) {}
  void apply(NormalText& text) const override { change_(text); }

 private:
  void (*change_)(NormalText&);
};

void remove_marks(NormalText& text) { drop_characters(text, is_mark); }

void to_bytes(NormalText& text) { text.text = to_byte_alphabet(text.text); }

// Source: the rules of SentencePiece named nmt, as in the tokenizers library.
void apply_nmt(NormalText& text) {
  map_characters(text, [](std::string& out, char32_t c) {
    const bool removed = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) ||
                         c == 0x7F || c == 0x8F || c == 0x9F;
    const bool blank = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xFEFF || c == 0xFFFD;
    if (!removed) append_character(out, blank ? U' ' : c);
  });
}

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const JsonPart& json)
      : clean_(json.flag("clean_text")),
        chinese_(json.flag("handle_chinese_chars")),
        lower_(json.flag("lowercase")),
        accents_(json.flag("strip_accents", lower_)) {}

  void apply(NormalText& text) const override {
    map_characters(text, [this](std::string& out, char32_t c) { add(out, c); });
    if (accents_ && !is_ascii(text.text)) {
      text.text = normalized(text.text, NormalForm::D);
      drop_characters(text, is_nonspacing_mark);
    }
    if (lower_) lower_characters(text);
  }

 private:
  void add(std::string& out, char32_t c) const {
    if (clean_) {
      const bool is_line_or_tab = c == '\t' || c == '\n' || c == '\r';
      if (c == 0xFFFD || (!is_line_or_tab && is_control_or_format(c))) return;
      if (is_white_space(c)) c = ' ';
    }
    const bool spaced = chinese_ && is_chinese(c);
    if (spaced) out += ' ';
    append_character(out, c);
    if (spaced) out += ' ';
  }

  bool clean_, chinese_, lower_, accents_;
};

class StripNormalizer : public Normalizer {
 public:
  explicit StripNormalizer(const JsonPart& json)
      : left_(json.flag("strip_left")), right_(json.flag("strip_right")) {}

  void apply(NormalText& text) const override {
    const std::string_view all = text.text;
    size_t begin = 0, end = 0;
    if (left_)
      for (size_t at = 0; at < all.size() && is_white_space(next_character(all, at));) begin = at;
    if (!right_) end = all.size();
    for (size_t at = begin; right_ && at < all.size();)
      if (!is_white_space(next_character(all, at))) end = at;
    if (begin > 0) text.from_start = false;
    text.text = std::string(all.substr(begin, end > begin ? end - begin : 0));
  }

 private:
  bool left_, right_;
};

class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(const JsonPart& json) : text_(json.text("prepend")) {}
  void apply(NormalText& text) const override {
    if (!text.text.empty()) text.text.insert(0, text_);
  }

 private:
  std::string text_;
};

class ReplaceNormalizer : public Normalizer {
 public:
  explicit ReplaceNormalizer(const JsonPart& json)
      : pattern_(Pattern::of(json.part("pattern"))), content_(json.text("content")) {}

  void apply(NormalText& text) const override {
    if (content_.empty())
      pattern_.parts(text.text, [&](size_t begin, size_t end, bool is_match) {
        if (is_match && begin == 0 && end > 0) text.from_start = false;
      });
    text.text = replace_all(text.text, pattern_, content_);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class PrecompiledNormalizer : public Normalizer {
 public:
  explicit PrecompiledNormalizer(const JsonPart& json) : map_(read(json)) {}
  void apply(NormalText& text) const override { text.text = map_.apply(text.text); }

 private:
  static Charsmap read(const JsonPart& json) {
    try {
      return Charsmap(json.text("precompiled_charsmap"));
    } catch (const Error& error) {
      throw json.refused(error.what());
    }
  }
  Charsmap map_;
};

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(const JsonPart& json)
      : steps_(make_all(json, "normalizers", make_normalizer)) {}
  void apply(NormalText& text) const override {
    // Bounds the memory: a few replacements can double a text many times.
    const auto limit = kMaxGrowth * text.text.size() + kMaxGrowth * 1024;
    for (const auto& step : steps_) {
      step->apply(text);
      if (text.text.size() > limit)
        throw config_error("the normalizer makes the text more than 256 times as long");
    }
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

template <NormalForm form>
std::unique_ptr<Normalizer> new_form(const JsonPart&) {
  return std::make_unique<UnicodeNormalizer>(form);
}

template <void (*change)(NormalText&)>
std::unique_ptr<Normalizer> new_fixed(const JsonPart&) {
  return std::make_unique<FixedNormalizer>(change);
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const JsonPart& json) {
  static const JsonKinds<Normalizer> kinds = {
      {"BertNormalizer", make_kind<Normalizer, BertNormalizer>},
      {"ByteLevel", new_fixed<to_bytes>},
      {"Lowercase", new_fixed<lower_characters>},
      {"NFC", new_form<NormalForm::C>},
      {"NFD", new_form<NormalForm::D>},
      {"NFKC", new_form<NormalForm::KC>},
      {"NFKD", new_form<NormalForm::KD>},
      {"Nmt", new_fixed<apply_nmt>},
      {"Precompiled", make_kind<Normalizer, PrecompiledNormalizer>},
      {"Prepend", make_kind<Normalizer, PrependNormalizer>},
      {"Replace", make_kind<Normalizer, ReplaceNormalizer>},
      {"Sequence", make_kind<Normalizer, SequenceNormalizer>},
      {"Strip", make_kind<Normalizer, StripNormalizer>},
      {"StripAccents", new_fixed<remove_marks>},
  };
  return json.is_null() ? nullptr : make_any(kinds, json);
}

}  // namespace lockstep::formats
