// Texts with labels, for classification: JSON Lines or CSV. No LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::formats {

// A label is a name or a number, or a list of either; the other member is then empty.
struct LabeledText {
  std::vector<std::string> words;  // of a list of words, or one text
  bool is_words = false;
  std::optional<std::string> pair;  // the second text
  std::vector<std::string> names;
  std::vector<double> numbers;
  bool is_list = false;  // the label is a list
  int64_t place = 0;     // line, or row of a CSV file
};

struct LabeledTextFormat {
  std::string text = "text";
  std::string label = "label";  // empty: not read
  std::string pair = {};        // the second text; empty: none
  // The names of the classes. If one looks like a number, labels of a CSV file are names.
  std::vector<std::string> classes = {};
};

// Parses untrusted text. `name` is used as the file name in messages. Throws Config, naming the line:
// not an object, without a text or a label, or of other types.
std::vector<LabeledText> parse_labeled_jsonl(std::string_view text, const LabeledTextFormat& format,
                                             const std::string& name);

// Reads a file, optionally compressed with gzip or zstd: CSV if its name contains .csv or .tsv, else
// JSON Lines. Throws Config, and Environment if it cannot be read.
std::vector<LabeledText> read_labeled_texts(const std::filesystem::path& path,
                                            const LabeledTextFormat& format);

}  // namespace lockstep::formats
