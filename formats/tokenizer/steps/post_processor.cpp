#include "formats/tokenizer/steps/post_processor.h"

#include <fmt/format.h>

#include "core/printable.h"
#include "formats/tokenizer/text/json_kinds.h"

namespace lockstep::formats {
namespace {

constexpr size_t kMaxTemplateTokens = 1000;

int32_t special_id(const JsonPart& json, const nlohmann::json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT32_MAX)
    throw json.refused("the id of a special token is missing or too large");
  return value.get<int32_t>();
}

// ["[SEP]", 102]
int32_t special_pair(const JsonPart& json, const char* key) {
  const auto pair = json.part(key);
  if (!pair.value().is_array() || pair.value().size() != 2)
    throw pair.refused("expected a token and its id");
  return special_id(pair, pair.value()[1]);
}

void append_token(EncodedText& text, int32_t id, int32_t type) {
  text.ids.push_back(id);
  text.type_ids.push_back(type);
}

// BERT: CLS A SEP B SEP, types 0 and 1. RoBERTa: CLS A SEP SEP B SEP, all of type 0.
class ClassifierProcessor : public PostProcessor {
 public:
  explicit ClassifierProcessor(const JsonPart& json)
      : cls_(special_pair(json, "cls")),
        sep_(special_pair(json, "sep")),
        roberta_(json.type() == "RobertaProcessing") {}

  void apply(std::vector<EncodedText>& texts) const override {
    for (size_t i = 0; i < texts.size(); ++i) {
      const int32_t type = i > 0 && !roberta_ ? 1 : 0;
      EncodedText whole;
      if (i == 0) append_token(whole, cls_, 0);
      if (i > 0 && roberta_) append_token(whole, sep_, 0);
      for (size_t t = 0; t < texts[i].ids.size(); ++t)
        append_token(whole, texts[i].ids[t], roberta_ ? 0 : texts[i].type_ids[t]);
      append_token(whole, sep_, type);
      texts[i] = std::move(whole);
    }
  }

 private:
  int32_t cls_, sep_;
  bool roberta_;
};

class TemplateProcessor : public PostProcessor {
 public:
  explicit TemplateProcessor(const JsonPart& json)
      : name_(json.file()), single_(read(json, "single", 1)), pair_(read(json, "pair", 2)) {}

  void apply(std::vector<EncodedText>& texts) const override {
    if (texts.empty() || texts.size() > 2)
      throw config_error(name_ + ": its TemplateProcessing follows another one");
    std::vector<EncodedText> out;
    for (const auto& piece : texts.size() == 1 ? single_ : pair_) {
      EncodedText part;
      part.ids = piece.is_text ? texts[piece.text].ids : piece.ids;
      part.type_ids.assign(part.ids.size(), piece.type);
      out.push_back(std::move(part));
    }
    texts = std::move(out);
  }

 private:
  struct TemplatePiece {
    bool is_text;
    size_t text;               // 0 or 1
    std::vector<int32_t> ids;  // of a special token
    int32_t type;
  };

  static std::vector<TemplatePiece> read(const JsonPart& json, const char* key, size_t texts) {
    std::vector<TemplatePiece> pieces;
    for (const auto& element : json.parts(key)) {
      if (element.has("Sequence")) {
        const auto sequence = element.part("Sequence");
        const auto id = sequence.text("id");
        if (id != "A" && id != "B") throw sequence.refused("id is not one of A, B");
        if (id == "B" && texts == 1) throw sequence.refused("it refers to a second text");
        pieces.push_back({true, id == "B" ? size_t{1} : 0, {}, type_of(sequence)});
      } else if (element.has("SpecialToken")) {
        const auto special = element.part("SpecialToken");
        pieces.push_back({false, 0, special_ids(json, special.text("id")), type_of(special)});
      } else {
        throw element.refused("expected a Sequence or a SpecialToken");
      }
    }
    return pieces;
  }

  static int32_t type_of(const JsonPart& json) {
    return static_cast<int32_t>(json.number("type_id", 0, INT32_MAX));
  }

  static std::vector<int32_t> special_ids(const JsonPart& json, const std::string& id) {
    const auto token = json.part("special_tokens").part(id.c_str());
    const auto list = token.part("ids");
    if (!list.value().is_array() || list.value().size() > kMaxTemplateTokens)
      throw json.refused(fmt::format("special_tokens has no ids of '{}'", printable(id)));
    std::vector<int32_t> ids;
    for (const auto& value : list.value()) ids.push_back(special_id(list, value));
    return ids;
  }

  std::string name_;
  std::vector<TemplatePiece> single_, pair_;
};

// Concerns the positions of tokens in the text only.
class OffsetProcessor : public PostProcessor {
 public:
  void apply(std::vector<EncodedText>&) const override {}
};

class SequenceProcessor : public PostProcessor {
 public:
  explicit SequenceProcessor(const JsonPart& json)
      : steps_(make_all(json, "processors", make_post_processor)) {}
  void apply(std::vector<EncodedText>& texts) const override {
    for (const auto& step : steps_) step->apply(texts);
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> steps_;
};

}  // namespace

std::unique_ptr<PostProcessor> make_post_processor(const JsonPart& json) {
  static const JsonKinds<PostProcessor> kinds = {
      {"BertProcessing", make_kind<PostProcessor, ClassifierProcessor>},
      {"ByteLevel", make_kind<PostProcessor, OffsetProcessor>},
      {"RobertaProcessing", make_kind<PostProcessor, ClassifierProcessor>},
      {"Sequence", make_kind<PostProcessor, SequenceProcessor>},
      {"TemplateProcessing", make_kind<PostProcessor, TemplateProcessor>},
  };
  return json.is_null() ? nullptr : make_any(kinds, json);
}

}  // namespace lockstep::formats
