#include "trainer/commands/generation_command.h"

#include <fmt/format.h>

#include <ctime>
#include <optional>

#include "core/printable.h"
#include "core/system/durable_file.h"
#include "distributed/objects.h"
#include "formats/chat/chat_template.h"
#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"
#include "trainer/commands/trained_weights.h"
#include "trainer/generation/prompts.h"
#include "trainer/prepared/model_faults.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

constexpr WeightUse kGenerationUse{.option = "--generate", .purpose = "generate with"};

std::vector<GivenPrompt> given_prompts(const GenerationArguments& arguments) {
  std::vector<GivenPrompt> prompts;
  if (const auto& file = arguments.prompts_file) {
    std::error_code error;
    if (!fs::is_regular_file(*file, error))
      throw config_error(fmt::format("--generate: {} is not a file", printable(*file, 400)));
    const auto ending = fs::path(*file).extension();
    prompts = parse_prompts(read_file(*file), ending == ".jsonl" || ending == ".json",
                            printable(*file, 400));
  }
  for (const auto& text : arguments.prompts) {
    if (find_invalid_utf8(text) != text.npos)
      throw config_error("--prompt: the text is not valid UTF-8");
    prompts.push_back({.where = "--prompt", .text = text});
  }
  if (arguments.is_chat)
    for (auto& prompt : prompts) make_conversation(prompt);
  return prompts;
}

// The prompts, and what generates their texts.
struct Generation {
  std::unique_ptr<TextCodec> codec;  // null: there is no tokenizer
  std::vector<Prompt> prompts;
  GenerationOptions options;
};

std::unique_ptr<TextCodec> open_codec(const GenerationArguments& arguments,
                                      const fs::path& directory) {
  const auto tokenizer = arguments.tokenizer ? arguments.tokenizer : tokenizer_of(directory);
  return tokenizer ? std::make_unique<TextCodec>(*tokenizer, "--tokenizer") : nullptr;
}

std::tm today() {
  const auto now = std::time(nullptr);
  std::tm date = {};
  localtime_r(&now, &date);
  return date;
}

// The texts of conversations, by the chat template next to the tokenizer, which is read for the
// first one.
class ChatTexts {
 public:
  ChatTexts(const GenerationArguments& arguments, const fs::path& model_directory)
      : tokenizer_(arguments.tokenizer.value_or(model_directory.string())) {}

  // Throws Config.
  std::string text(const GivenPrompt& prompt) {
    try {
      if (!template_) template_.emplace(directory(), formats::ChatTemplateOptions{.date = today()});
      return template_->render_prompt(*prompt.chat);
    } catch (const Error& error) {
      throw config_error(fmt::format("{}: {}", prompt.where, error.what()));
    }
  }

 private:
  fs::path directory() const {
    if (tokenizer_ == "bytes")
      throw config_error(
          "--tokenizer bytes has no chat template; set --tokenizer to the directory of a chat "
          "model");
    std::error_code error;
    if (fs::is_directory(tokenizer_, error)) return tokenizer_;
    return tokenizer_.has_parent_path() ? tokenizer_.parent_path() : ".";
  }

  fs::path tokenizer_;  // the file, or a directory with it
  std::optional<formats::ChatTemplate> template_;
};

Generation prepare(const GenerationArguments& arguments, const PreparedRun& run,
                   std::vector<GivenPrompt> given) {
  Generation generation;
  const auto directory = model_directory(run.config);
  const auto& model = language_model_of(*run.model, run.model_title());
  auto& codec = generation.codec = open_codec(arguments, directory);
  if (!codec && !arguments.stops.empty())
    throw config_error("--stop has no effect without a tokenizer; set --tokenizer");
  ChatTexts chats(arguments, directory);
  int64_t number = 0;
  for (auto& prompt : given) {
    auto& [where, text, tokens, chat] = prompt;
    if (!tokens && !codec)
      throw config_error(
          "there is no tokenizer for the prompts: set --tokenizer to a tokenizer.json, or to "
          "bytes, "
          "or give prompts as {\"tokens\": [...]} in JSON Lines");
    if (chat) text = chats.text(prompt);
    const auto numbers = tokens ? std::move(*tokens)
                         : chat ? codec->encode_chat(text)
                                : codec->encode(text);
    for (int64_t sample = 0; sample < arguments.samples; ++sample)
      generation.prompts.push_back({number, sample, text, numbers});
    ++number;
  }
  verify_prompts(model, generation.prompts, "prompt");
  if (arguments.beams.count > model.vocabulary_size())
    throw config_error(fmt::format("--beams: {}: the model has a vocabulary of {}",
                                   arguments.beams.count, model.vocabulary_size()));
  generation.options = {.max_tokens = arguments.max_tokens,
                        .batch_size = arguments.batch_size,
                        .sampling = arguments.sampling,
                        .beams = arguments.beams,
                        .stops = arguments.stops,
                        .end_tokens = end_tokens_of(directory, codec.get()),
                        .seed = static_cast<uint64_t>(arguments.seed),
                        .precision = run.config.train.precision};
  return generation;
}

nlohmann::ordered_json row_of(const Prompt& prompt, const GeneratedText& text, bool has_text) {
  nlohmann::ordered_json row;
  if (prompt.text.empty())
    row["prompt_tokens"] = prompt.tokens;
  else
    row["prompt"] = prompt.text;
  if (has_text) row["text"] = text.text;
  row["tokens"] = text.tokens;
  row["finish"] = name_of(text.finish);
  return row;
}

// The texts of this rank's prompts, by their places among all.
nlohmann::json own_texts(World& world, const PreparedRun& run, const Generation& generation,
                         const OnText& on_text) {
  std::vector<Prompt> own;
  std::vector<size_t> places;
  const auto step = static_cast<size_t>(world.world_size());
  for (auto i = static_cast<size_t>(world.rank()); i < generation.prompts.size(); i += step) {
    own.push_back(generation.prompts[i]);
    places.push_back(i);
  }
  const auto texts = in_model(run.model_title(), nullptr, [&] {
    return generate(*run.model, world.device(), generation.codec.get(), own, generation.options,
                    on_text);
  });
  auto rows = nlohmann::json::object();
  for (size_t i = 0; i < own.size(); ++i)
    rows[std::to_string(places[i])] = row_of(own[i], texts[i], generation.codec != nullptr).dump();
  return rows;
}

std::vector<std::string> gather_rows(World& world, const nlohmann::json& own, size_t count) {
  std::vector<std::string> rows(count);
  for (const auto& rank : distributed::gather_object(world, own, 0, "generated texts"))
    for (const auto& [place, row] : rank.items()) rows[std::stoul(place)] = row;
  return rows;
}

std::string shown(const std::string& row, bool is_single) {
  const auto json = nlohmann::json::parse(row);
  const auto text = json.contains("text") ? json["text"].get<std::string>() : json["tokens"].dump();
  if (is_single) return text + "\n";
  const auto prompt =
      json.contains("prompt") ? json["prompt"].get<std::string>() : json["prompt_tokens"].dump();
  return fmt::format("> {}\n{}\n\n", prompt, text);
}

void report(const GenerationRequest& request, const std::vector<std::string>& rows, bool is_printed,
            const std::string& weights) {
  if (const auto& out = request.arguments.out) {
    std::string lines;
    for (const auto& row : rows) lines += row + "\n";
    write_output_file(*out, lines);
    request.print(fmt::format("texts: {} in {}\n{}", rows.size(), *out, weights));
    return;
  }
  if (is_printed) return request.print("\n");
  for (const auto& row : rows) request.print(shown(row, rows.size() == 1));
}

}  // namespace

void generate_texts(const GenerationRequest& request) {
  const auto& arguments = request.arguments;
  const auto config = load_run_config(request.config_path, request.overrides);
  verify_out(arguments.out, request.ranks);
  auto given = given_prompts(arguments);
  const auto run = prepare_generation(config, request.ranks);
  verify_has_weights(kGenerationUse, request.run_id, run);
  const auto generation = prepare(arguments, run, std::move(given));
  const auto connected = connect_with_model(run, request.progress);
  auto& world = *connected;
  const auto weights = load_trained_weights(world, kGenerationUse, request.run_id, run).text();
  const bool is_streamed = request.streams && !arguments.out && generation.codec &&
                           generation.prompts.size() == 1 && tracking::is_main(world.rank());
  OnText on_text;
  if (is_streamed) on_text = [&](size_t, std::string_view part) { request.print(part); };
  const auto own = own_texts(world, run, generation, on_text);
  const auto rows = gather_rows(world, own, generation.prompts.size());
  distributed::act_on_main(world, "generated texts", [&] {
    report(request, rows, is_streamed, weights);
    return true;
  });
  world.finish();
}

}  // namespace lockstep::trainer
