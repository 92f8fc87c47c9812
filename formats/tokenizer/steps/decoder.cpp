#include "formats/tokenizer/steps/decoder.h"

#include <algorithm>
#include <charconv>

#include "core/printable.h"
#include "formats/tokenizer/text/byte_alphabet.h"
#include "formats/tokenizer/text/json_kinds.h"
#include "formats/tokenizer/text/pattern.h"
#include "formats/tokenizer/text/unicode.h"

namespace lockstep::formats {
namespace {

using Parts = std::vector<std::string>;

std::string replaced_text(std::string_view text, const std::string& old, std::string_view content) {
  return replace_all(text, Pattern::fixed(old), content);
}

class ByteLevelDecoder : public TokenDecoder {
 public:
  void apply(Parts& parts, bool keeps_bytes) const override {
    std::string bytes;
    for (const auto& part : parts) bytes += from_byte_alphabet(part).value_or(part);
    parts = {keeps_bytes ? bytes : valid_utf8(bytes)};
  }
};

class ByteFallbackDecoder : public TokenDecoder {
 public:
  void apply(Parts& parts, bool keeps_bytes) const override {
    Parts out;
    std::string bytes;
    const auto finish = [&] {
      if (keeps_bytes || find_invalid_utf8(bytes) == std::string_view::npos) {
        if (!bytes.empty()) out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
      }
      bytes.clear();
    };
    for (auto& part : parts) {
      if (const auto byte = byte_of(part); byte >= 0) {
        bytes += static_cast<char>(byte);
        continue;
      }
      finish();
      out.push_back(std::move(part));
    }
    finish();
    parts = std::move(out);
  }

 private:
  // The value of "<0x..>", -1 for other tokens.
  static int byte_of(const std::string& token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
    int byte = -1;
    // A sign is accepted by the tokenizers library.
    const auto* begin = token.data() + (token[3] == '+' ? 4 : 3);
    const auto [end, error] = std::from_chars(begin, token.data() + 5, byte, 16);
    return error == std::errc() && end == token.data() + 5 && byte >= 0 ? byte : -1;
  }
};

class MetaspaceDecoder : public TokenDecoder {
 public:
  explicit MetaspaceDecoder(const JsonPart& json)
      : mark_(json.character("replacement")),
        drops_first_(json.text("prepend_scheme", "always") != "never" &&
                     json.flag("add_prefix_space", true)) {}
  void apply(Parts& parts, bool /*keeps_bytes*/) const override {
    for (size_t i = 0; i < parts.size(); ++i)
      parts[i] = replaced_text(parts[i], mark_, i == 0 && drops_first_ ? "" : " ");
  }

 private:
  std::string mark_;
  bool drops_first_;
};

// Removes the spaces that tokenizing English text inserts.
std::string cleaned_up(std::string text) {
  static const std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  if (text.find(' ') == text.npos) return text;
  for (const auto& [old, content] : kRules) text = replaced_text(text, old, content);
  return text;
}

class WordPieceDecoder : public TokenDecoder {
 public:
  explicit WordPieceDecoder(const JsonPart& json)
      : prefix_(json.text("prefix")), cleans_(json.flag("cleanup")) {}
  void apply(Parts& parts, bool /*keeps_bytes*/) const override {
    for (size_t i = 0; i < parts.size(); ++i) {
      auto& part = parts[i];
      if (i > 0 && part.starts_with(prefix_))
        part.erase(0, prefix_.size());
      else if (i > 0)
        part.insert(0, " ");
      if (cleans_) part = cleaned_up(part);
    }
  }

 private:
  std::string prefix_;
  bool cleans_;
};

class BpeDecoder : public TokenDecoder {
 public:
  explicit BpeDecoder(const JsonPart& json) : suffix_(json.text("suffix")) {}
  void apply(Parts& parts, bool /*keeps_bytes*/) const override {
    for (size_t i = 0; i < parts.size(); ++i)
      parts[i] = replaced_text(parts[i], suffix_, i + 1 == parts.size() ? "" : " ");
  }

 private:
  std::string suffix_;
};

// Of speech recognition: drops repeated tokens and padding.
class CtcDecoder : public TokenDecoder {
 public:
  explicit CtcDecoder(const JsonPart& json)
      : padding_(json.text("pad_token")),
        delimiter_(json.text("word_delimiter_token")),
        cleans_(json.flag("cleanup")) {}
  void apply(Parts& parts, bool /*keeps_bytes*/) const override {
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    for (auto& part : parts) {
      part = replaced_text(part, padding_, "");
      if (cleans_) part = replaced_text(cleaned_up(part), delimiter_, " ");
    }
    std::erase(parts, "");
  }

 private:
  std::string padding_, delimiter_;
  bool cleans_;
};

class FuseDecoder : public TokenDecoder {
 public:
  void apply(Parts& parts, bool /*keeps_bytes*/) const override {
    std::string text;
    for (const auto& part : parts) text += part;
    parts = {text};
  }
};

class StripDecoder : public TokenDecoder {
 public:
  explicit StripDecoder(const JsonPart& json)
      : content_(json.character("content")),
        start_(json.number("start", 0, INT32_MAX)),
        stop_(json.number("stop", 0, INT32_MAX)) {}
  void apply(Parts& parts, bool /*keeps_bytes*/) const override {
    for (auto& part : parts) {
      std::string_view rest = part;
      for (int64_t i = 0; i < start_ && rest.starts_with(content_); ++i)
        rest.remove_prefix(content_.size());
      for (int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i)
        rest.remove_suffix(content_.size());
      if (rest.size() < part.size()) part = std::string(rest);
    }
  }

 private:
  std::string content_;
  int64_t start_, stop_;
};

class ReplaceDecoder : public TokenDecoder {
 public:
  explicit ReplaceDecoder(const JsonPart& json)
      : pattern_(Pattern::of(json.part("pattern"))), content_(json.text("content")) {}
  void apply(Parts& parts, bool /*keeps_bytes*/) const override {
    for (auto& part : parts) part = replace_all(part, pattern_, content_);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class SequenceDecoder : public TokenDecoder {
 public:
  explicit SequenceDecoder(const JsonPart& json)
      : steps_(make_all(json, "decoders", make_decoder)) {}
  void apply(Parts& parts, bool keeps_bytes) const override {
    for (const auto& step : steps_) step->apply(parts, keeps_bytes);
  }

 private:
  std::vector<std::unique_ptr<TokenDecoder>> steps_;
};

}  // namespace

std::unique_ptr<TokenDecoder> make_decoder(const JsonPart& json) {
  static const JsonKinds<TokenDecoder> kinds = {
      {"BPEDecoder", make_kind<TokenDecoder, BpeDecoder>},
      {"ByteFallback", make_kind<TokenDecoder, ByteFallbackDecoder>},
      {"ByteLevel", make_kind<TokenDecoder, ByteLevelDecoder>},
      {"CTC", make_kind<TokenDecoder, CtcDecoder>},
      {"Fuse", make_kind<TokenDecoder, FuseDecoder>},
      {"Metaspace", make_kind<TokenDecoder, MetaspaceDecoder>},
      {"Replace", make_kind<TokenDecoder, ReplaceDecoder>},
      {"Sequence", make_kind<TokenDecoder, SequenceDecoder>},
      {"Strip", make_kind<TokenDecoder, StripDecoder>},
      {"WordPiece", make_kind<TokenDecoder, WordPieceDecoder>},
  };
  return json.is_null() ? nullptr : make_any(kinds, json);
}

}  // namespace lockstep::formats
