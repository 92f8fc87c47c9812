#include "data/tokenize/commands.h"

#include <fmt/format.h>

#include <cxxopts.hpp>
#include <map>
#include <optional>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "core/system/durable_file.h"
#include "data/tokenize/documents.h"
#include "data/tokenize/learn_byte_pairs.h"
#include "data/tokenize/token_writer.h"
#include "formats/mapped_file.h"
#include "formats/path_list.h"
#include "formats/tar/tar_index.h"
#include "formats/tar/tar_samples.h"
#include "formats/tokenizer/tokenizer.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDataUsage =
    "usage: lockstep-data train-tokenizer --vocab-size N --out tokenizer.json FILE...\n"
    "       lockstep-data tokenize --out FOLDER (--tokenizer tokenizer.json | --bytes) FILE...\n"
    "       lockstep-data index FOLDER...\n"
    "\n"
    "train-tokenizer and tokenize convert text to files of the dataset `tokens`.\n"
    "train-tokenizer learns a byte-level BPE vocabulary; tokenize writes FOLDER/train/*.bin, with\n"
    "--eval also FOLDER/eval/*.bin, with a separator token after each document.\n"
    "index writes FOLDER/index.json, the numbers of samples of its *.tar files, for the dataset\n"
    "`webdataset`: training from a bucket then begins before all of them are fetched.\n\n";

constexpr const char* kEndOfText = "<|endoftext|>";
constexpr int32_t kEndOfBytes = 256;  // separator after a document with --bytes

cxxopts::Options data_options() {
  cxxopts::Options options("lockstep-data");
  options.add_options()("vocab-size", "vocabulary size, at least 257", cxxopts::value<int64_t>())(
      "min-count", "minimum occurrences of a pair that is merged",
      cxxopts::value<int64_t>()->default_value("2"))("out", "output file or folder",
                                                     cxxopts::value<std::string>())(
      "tokenizer", "a tokenizer.json, or a directory with one", cxxopts::value<std::string>())(
      "bytes", "use bytes as tokens, and 256 as the separator")(
      "documents", "unit of a document: file, line or paragraph",
      cxxopts::value<std::string>()->default_value("file"))(
      "separator", "the token that ends a document",
      cxxopts::value<std::string>()->default_value(kEndOfText))(
      "eval", "fraction of the tokens, from the end, for evaluation",
      cxxopts::value<double>()->default_value("0"))(
      "shard-tokens", "maximum tokens per file",
      cxxopts::value<int64_t>()->default_value("100000000"))("help", "show this help");
  options.add_options()("files", "", cxxopts::value<std::vector<std::string>>());
  options.parse_positional({"files"});
  return options;
}

// The options of each command.
const std::map<std::string, std::vector<std::string>>& options_of_commands() {
  static const std::map<std::string, std::vector<std::string>> options = {
      {"train-tokenizer", {"vocab-size", "min-count", "out", "documents"}},
      {"tokenize", {"out", "tokenizer", "bytes", "documents", "separator", "eval", "shard-tokens"}},
      {"index", {}}};
  return options;
}

void refuse_other_options(const std::string& command, const cxxopts::ParseResult& given) {
  const auto& known = options_of_commands();
  const auto& valid = known.at(command);
  for (const auto& [other, options] : known)
    for (const auto& option : options)
      if (given.count(option) && std::ranges::find(valid, option) == valid.end())
        throw config_error(
            fmt::format("--{} is an option of {}, not of {}", option, other, command));
}

DocumentKind document_kind(const std::string& word) {
  if (word == "file") return DocumentKind::File;
  if (word == "line") return DocumentKind::Line;
  if (word == "paragraph") return DocumentKind::Paragraph;
  throw config_error(
      fmt::format("--documents '{}': valid: file, line, paragraph", printable(word)));
}

template <class T>
T needed(const cxxopts::ParseResult& given, const std::string& option) {
  if (!given.count(option)) throw config_error("--" + option + " is required");
  return given[option].as<T>();
}

std::vector<fs::path> files_of(const cxxopts::ParseResult& given) {
  if (!given.count("files"))
    throw config_error("FILE or FOLDER is missing; see lockstep-data --help");
  const auto names = given["files"].as<std::vector<std::string>>();
  return {names.begin(), names.end()};
}

int train_tokenizer(const cxxopts::ParseResult& given, std::ostream& out) {
  const auto size = needed<int64_t>(given, "vocab-size");
  if (size < 257 || size > 1'000'000)
    throw config_error("--vocab-size: expected 257 (the bytes and the separator) to 1000000");
  const auto target = needed<std::string>(given, "out");
  std::map<std::string, int64_t> words;
  for_each_document(files_of(given), document_kind(given["documents"].as<std::string>()), true,
                    [&](std::string_view text) { count_words(text, words); });
  if (words.empty()) throw config_error("the files contain no text");
  const auto pairs = learn_byte_pairs(words, static_cast<size_t>(size),
                                      given["min-count"].as<int64_t>(), {kEndOfText});
  write_output_file(target, tokenizer_json(pairs));
  out << fmt::format("{}: {} tokens from {} different words\n", target, pairs.tokens.size(),
                     words.size());
  return 0;
}

// Text to tokens, by a tokenizer or byte by byte, with the token that ends a document.
class TextEncoder {
 public:
  explicit TextEncoder(const cxxopts::ParseResult& given) {
    const bool has_file = given.count("tokenizer") > 0;
    if (has_file == (given.count("bytes") > 0))
      throw config_error("expected exactly one of --tokenizer FILE and --bytes");
    if (!has_file && given.count("separator"))
      throw config_error("--separator has no effect with --bytes: the separator is 256");
    if (!has_file) return;
    const auto file = formats::tokenizer_file(given["tokenizer"].as<std::string>());
    json_ = read_file(file, formats::kMaxTokenizerBytes);
    tokenizer_.emplace(json_, printable(file.string(), 400));
    const auto separator = given["separator"].as<std::string>();
    const auto number = tokenizer_->find(separator);
    if (!number)
      throw config_error(
          fmt::format("--separator: the tokenizer has no token '{}'; name the token that ends a "
                      "document, e.g. one of its special tokens: {}",
                      printable(separator), special_tokens()));
    separator_ = *number;
    vocabulary_ = tokenizer_->vocabulary_size();
  }

  std::vector<int32_t> encode(std::string_view document) const {
    std::vector<int32_t> tokens;
    if (tokenizer_)
      tokenizer_->encode(document, tokens);
    else
      for (const auto byte : document) tokens.push_back(static_cast<uint8_t>(byte));
    tokens.push_back(separator_);
    return tokens;
  }

  bool takes_bytes() const { return !tokenizer_; }
  int32_t separator() const { return separator_; }
  size_t vocabulary() const { return vocabulary_; }
  const std::string& json() const { return json_; }
  formats::ElementType type() const {
    return vocabulary_ <= 65536 ? formats::ElementType::U16 : formats::ElementType::U32;
  }

 private:
  std::string special_tokens() const {
    std::string names;
    for (const auto& token : tokenizer_->special_tokens())
      if (names.size() < 200) names += (names.empty() ? "" : ", ") + printable(token);
    return names.empty() ? "none" : names;
  }

  std::optional<formats::Tokenizer> tokenizer_;
  std::string json_;
  int32_t separator_ = kEndOfBytes;
  size_t vocabulary_ = kEndOfBytes + 1;
};

// Files of an earlier command would be read, too.
void refuse_earlier_tokens(const fs::path& folder) {
  std::error_code error;
  for (const auto* part : {"train", "eval"})
    for (fs::directory_iterator it(folder / part, error), end; !error && it != end;
         it.increment(error))
      if (it->path().extension() == ".bin")
        throw config_error(
            fmt::format("--out: {} already has *.bin files: remove it, or choose another folder",
                        printable((folder / part).string(), 400)));
}

int tokenize(const cxxopts::ParseResult& given, std::ostream& out) {
  const fs::path folder = needed<std::string>(given, "out");
  const auto eval = given["eval"].as<double>();
  const auto shard_tokens = given["shard-tokens"].as<int64_t>();
  if (!(eval >= 0 && eval < 1))
    throw config_error("--eval: expected a fraction from 0 (inclusive) to 1 (exclusive)");
  if (shard_tokens < 1 || shard_tokens > INT32_MAX)
    throw config_error(fmt::format("--shard-tokens: expected a number from 1 to {}", INT32_MAX));
  refuse_earlier_tokens(folder);
  TextEncoder encoder(given);
  std::vector<int32_t> tokens;
  size_t documents = 0;
  for_each_document(files_of(given), document_kind(given["documents"].as<std::string>()),
                    !encoder.takes_bytes(), [&](std::string_view text) {
                      const auto encoded = encoder.encode(text);
                      tokens.insert(tokens.end(), encoded.begin(), encoded.end());
                      ++documents;
                    });
  if (documents == 0) throw config_error("the files contain no text");
  const auto held_out = static_cast<size_t>(static_cast<double>(tokens.size()) * eval);
  if (eval > 0 && held_out == 0)
    throw config_error(
        fmt::format("--eval {}: of {} tokens, none remains for evaluation", eval, tokens.size()));
  const std::span<const int32_t> all(tokens);
  const auto write = [&](const char* part, std::span<const int32_t> some) {
    if (some.empty()) return;
    TokenWriter writer(folder / part, encoder.type(), static_cast<size_t>(shard_tokens));
    writer.write(some);
    writer.finish();
    out << fmt::format("{}: {} tokens in {} file{}\n", (folder / part).string(), writer.tokens(),
                       writer.shards(), writer.shards() == 1 ? "" : "s");
  };
  write("train", all.first(all.size() - held_out));
  write("eval", all.last(held_out));
  if (!encoder.takes_bytes()) write_file_durably(folder / formats::kTokenizerFile, encoder.json());
  out << fmt::format("{} document{}, {} tokens in the vocabulary, separator {}\n", documents,
                     documents == 1 ? "" : "s", encoder.vocabulary(), encoder.separator());
  return 0;
}

// Whether there is a file that write_index() did not write.
bool is_other_file(const fs::path& index) {
  std::error_code error;
  if (!fs::exists(index, error)) return false;
  try {
    return !formats::parse_tar_index(read_file(index), index.string());
  } catch (const Error&) {
    return false;  // an index with an error
  }
}

// The index of a folder of tar archives, which replaces an earlier one.
void write_index(const fs::path& folder, std::ostream& out) {
  const auto shown = printable(folder.string(), 400);
  if (!formats::is_folder(folder)) throw config_error(shown + ": no such folder");
  const auto files =
      formats::list_files(folder, [](const fs::path& file) { return file.extension() == ".tar"; });
  if (files.empty()) throw config_error(shown + ": no *.tar files in this folder");
  const auto target = folder / formats::kTarIndexName;
  if (is_other_file(target))
    throw config_error(printable(target.string(), 400) +
                       ": is another file, not an index of shards: move it");
  formats::TarIndex index;
  int64_t samples = 0;
  for (const auto& path : files) {
    const auto name = path.filename().string();
    if (find_invalid_utf8(name) != name.npos)
      throw config_error(printable(path.string(), 400) + ": its name is not UTF-8");
    const formats::MappedFile file(path);
    auto& shard = index[name];
    shard.bytes = file.identity().size;
    file.read([&](std::span<const uint8_t> bytes) {
      formats::for_each_tar_sample(bytes, file.name(), [&](const auto&) { ++shard.samples; });
      return true;
    });
    samples += shard.samples;
  }
  write_file_durably(target, formats::tar_index_text(index));
  out << fmt::format("{}: {} samples in {} file{}\n", target.string(), samples, files.size(),
                     files.size() == 1 ? "" : "s");
}

int write_indices(const cxxopts::ParseResult& given, std::ostream& out) {
  for (const auto& folder : files_of(given)) write_index(folder, out);
  return 0;
}

}  // namespace

int data_command(const std::vector<std::string>& arguments, std::ostream& out) {
  auto options = data_options();
  const auto command = arguments.empty() ? std::string() : arguments.front();
  const bool wants_help = std::ranges::find(arguments, "--help") != arguments.end();
  if (wants_help || command == "-h") {
    const auto help = options.help();
    out << kDataUsage << help.substr(help.find("      --"));
    return 0;
  }
  const std::vector<std::string> commands = {"tokenize", "train-tokenizer", "index"};
  if (std::ranges::find(commands, command) == commands.end()) {
    const auto problem = command.empty() ? "a command is missing"
                                         : fmt::format("unknown command '{}'", printable(command));
    throw config_error(problem + suggest(command, commands));
  }
  std::vector<const char*> words;
  for (const auto& argument : arguments) words.push_back(argument.c_str());
  const auto given = [&] {
    try {
      return options.parse(static_cast<int>(words.size()), words.data());
    } catch (const cxxopts::exceptions::exception& error) {
      throw config_error(printable(error.what(), 200));
    }
  }();
  refuse_other_options(command, given);
  if (command == "index") return write_indices(given, out);
  return command == "tokenize" ? tokenize(given, out) : train_tokenizer(given, out);
}

}  // namespace lockstep::data
