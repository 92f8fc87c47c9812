// Arbitrary bytes are either a tokenizer that encodes any text to tokens of its vocabulary, and
// decodes them, or a Config error.
#include <cstdlib>

#include "core/printable.h"
#include "formats/tokenizer/tokenizer.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

constexpr std::string_view kText =
    "In the beginning<|endoftext|> God  created\n\n12 \xC3\xA4ons. [MASK] \xE4\xB8\xAD\xE6\x96\x87 "
    "e\xCC\x81\xF0\x9F\x99\x82 it's \x01 <s>";

std::string file(const std::string& model, const std::string& rest) {
  return R"({"version": "1.0", "added_tokens": [{"id": 9, "content": "<|endoftext|>", )"
         R"("single_word": false, "lstrip": false, "rstrip": true, "normalized": false, )"
         R"("special": true}, {"id": 10, "content": "[MASK]", "single_word": true, "lstrip": )"
         R"(true, )"
         R"("rstrip": false, "normalized": true, "special": false}], )" +
         rest + R"(, "model": )" + model + "}";
}

std::string pairs(const std::string& more) {
  return R"({"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "t": 1, "h": 2, "e": 3, "th": 4, )"
         R"("the": 5, "Ġ": 6, "▁": 7, "<0x0A>": 8}, "merges": [["t", "h"], "th e"])" +
         more + "}";
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {
      file(pairs(""), R"("normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", )"
                      R"("pretokenizers": [{"type": "Digits", "individual_digits": true}, )"
                      R"({"type": "ByteLevel", "add_prefix_space": true, "use_regex": true}]}, )"
                      R"("decoder": {"type": "ByteLevel"}, "post_processor": {"type": )"
                      R"("RobertaProcessing", "sep": ["a", 1], "cls": ["b", 2]})"),
      file(pairs(R"(, "byte_fallback": true, "fuse_unk": true)"),
           R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": )"
           R"("▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, {"type": )"
           R"("Nmt"}]}, "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", )"
           R"("pattern": {"Regex": "▁+"}, "content": " "}, {"type": "ByteFallback"}, {"type": )"
           R"("Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 1}]})"),
      file(pairs(R"(, "end_of_word_suffix": "e", "continuing_subword_prefix": "t")"),
           R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\s+|[a-d]"}, )"
           R"("behavior": "MergedWithNext", "invert": false}, "decoder": {"type": "BPEDecoder", )"
           R"("suffix": "e"})"),
      file(
          R"({"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": [["<unk>", 0.0], )"
          R"(["▁", -2.5], ["▁th", -3.0], ["e", -1.5], ["in", -2], ["g", -4.0]]})",
          R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": )"
          R"("CAAAAAAAAAAAAAAAYQA="}, )"
          R"("pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": )"
          R"("first", "split": true}, "decoder": {"type": "Metaspace", "replacement": "▁"}, )"
          R"("post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", )"
          R"("type_id": 0}}, {"SpecialToken": {"id": "e", "type_id": 1}}], "pair": [], )"
          R"("special_tokens": {"e": {"id": "e", "ids": [3], "tokens": ["e"]}}})"),
      file(
          R"({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", )"
          R"("max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "in": 1, "##g": 2, "the": 3}})",
          R"("normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": )"
          R"(true, "strip_accents": null, "lowercase": true}, "pre_tokenizer": {"type": )"
          R"("BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": )"
          R"(true}, "post_processor": {"type": "BertProcessing", "sep": )"
          R"(["a", 1], "cls": ["b", 2]})"),
      file(R"({"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "in": 1, "the": 3}})",
           R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": )"
           R"("StripAccents"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": true, )"
           R"("strip_right": true}]}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [)"
           R"({"type": "Whitespace"}, {"type": "Punctuation", "behavior": "Contiguous"}, )"
           R"({"type": "FixedLength", "length": 4}]}, "decoder": {"type": "CTC", "pad_token": )"
           R"("?", "word_delimiter_token": "|", "cleanup": true})"),
  };
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const formats::Tokenizer tokenizer({reinterpret_cast<const char*>(data), size}, "input");
    std::vector<int32_t> tokens;
    tokenizer.encode(kText, tokens);
    for (const auto token : tokens)
      if (token < 0 || static_cast<size_t>(token) >= tokenizer.vocabulary_size()) std::abort();
    tokenizer.encode_for_model(kText);
    const auto text = tokenizer.decode(tokens, /*skip_special=*/false);
    if (find_invalid_utf8(text) != text.npos) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
  return 0;
}
