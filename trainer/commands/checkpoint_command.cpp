#include "trainer/commands/checkpoint_command.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>

#include "catalog/run_list.h"
#include "core/config/launch_sections.h"
#include "core/config/nearest_name.h"
#include "core/config/size_text.h"
#include "core/printable.h"
#include "core/run_id.h"
#include "formats/store/store_path.h"
#include "lockstep/error.h"
#include "tracking/runs/run_directory.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_mirror.h"
#include "trainer/prepared/object_stores.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCheckpointHelp =
    R"(lockstep ckpt: inspect, export and fetch the checkpoints of a run

  lockstep ckpt list RUN [--dir RUNS] [--json]
        list the checkpoints with epoch, number of ranks, size and evaluation
  lockstep ckpt verify RUN[:STEP] [--dir RUNS] [--json]
        read every tensor and verify its checksum, also of the base model that a checkpoint of
        adapters refers to; exit code 75 if a checkpoint is corrupt or its base model has changed,
        78 if it was written by a later version of Lockstep
  lockstep ckpt diff RUN[:STEP] RUN[:STEP] [--dir RUNS] [--json]
        compare weights and optimizer state; exit code 0 if bit-identical, 1 otherwise
  lockstep ckpt export RUN[:STEP] --out PATH [--format FORMAT] [--merge] [--package FILE]
        [--dir RUNS]
        write the weights, or the averages that evaluations use, to PATH, which must not exist
        (hf: or be an empty directory)
          hf           a directory for from_pretrained() of transformers, or an adapter for PEFT;
                       --merge: a model with the adapters merged. Default for models in that layout
          safetensors  one file with the names of the checkpoint, of any model. Default for others
          aoti, pt2    the evaluation graph of a compiled package (default: that of the run), for
                       AOTInductor's loaders in C++ and Python, or for torch.export.load()
  lockstep ckpt fetch s3://BUCKET/PREFIX/RUN[/STEP] [--dir RUNS]
        copy a checkpoint of checkpoint.mirror to RUNS/RUN/checkpoints/STEP, and verify it as
        above; the other commands, and --resume RUN, then use it

RUN is a run id, the beginning of one, or a run directory; STEP is the step of a checkpoint
(default: the last one; verify: all). --dir: the directory of the runs (default: runs)
)";

struct CheckpointArguments {
  std::string command;
  std::vector<std::string> runs;
  std::string dir = kRunsDir;
  std::string out, format, package;  // of export
  bool merge = false;
  bool as_json = false;
};

struct ChosenCheckpoints {
  fs::path directory;  // of all checkpoints of the run
  std::vector<int64_t> steps;
};

CheckpointArguments parse(const std::vector<std::string>& words) {
  const std::vector<std::string> valid = {"list", "verify", "diff", "export", "fetch"};
  if (words.empty()) throw config_error("lockstep ckpt: a command is missing" + suggest("", valid));
  CheckpointArguments parsed{.command = words.front()};
  if (std::ranges::find(valid, parsed.command) == valid.end())
    throw config_error(fmt::format("lockstep ckpt: unknown command '{}'{}",
                                   printable(parsed.command), suggest(parsed.command, valid)));
  const bool exports = parsed.command == "export";
  const bool prints_json = !exports && parsed.command != "fetch";
  std::vector<std::string> options = {"--dir"};
  if (exports) options.insert(options.end(), {"--out", "--format", "--package", "--merge"});
  if (prints_json) options.emplace_back("--json");
  for (size_t i = 1; i < words.size(); ++i) {
    const auto& word = words[i];
    const auto takes_value = [&](const std::string& option, std::string& value) {
      if (word != option && !word.starts_with(option + "=")) return false;
      if (word == option && i + 1 == words.size())
        throw config_error(
            fmt::format("lockstep ckpt {}: {} needs a value", parsed.command, option));
      value = word == option ? words[++i] : word.substr(option.size() + 1);
      return true;
    };
    if (takes_value("--dir", parsed.dir)) continue;
    if (exports && (takes_value("--out", parsed.out) || takes_value("--format", parsed.format) ||
                    takes_value("--package", parsed.package)))
      continue;
    if (word == "--json" && prints_json) {
      parsed.as_json = true;
    } else if (word == "--merge" && exports) {
      parsed.merge = true;
    } else if (word.starts_with("-")) {
      throw config_error(fmt::format("lockstep ckpt {}: unknown option '{}'{}", parsed.command,
                                     printable(word), suggest(word, options)));
    } else {
      parsed.runs.push_back(word);
    }
  }
  const size_t expected = parsed.command == "diff" ? 2 : 1;
  if (parsed.runs.size() != expected)
    throw config_error(
        fmt::format("lockstep ckpt {}: expected {}, got {}; see lockstep ckpt --help",
                    parsed.command, expected == 1 ? "one run" : "two runs", parsed.runs.size()));
  if (exports && parsed.out.empty())
    throw config_error("lockstep ckpt export: expected --out PATH; see lockstep ckpt --help");
  return parsed;
}

// nullopt for "".
std::optional<ExportFormat> format_of(const std::string& name) {
  constexpr auto kNames = choices(ExportFormat{});
  const auto found = std::ranges::find(kNames, std::string_view(name));
  if (found != kNames.end()) return static_cast<ExportFormat>(found - kNames.begin());
  if (name.empty()) return std::nullopt;
  throw config_error(fmt::format("lockstep ckpt export: --format '{}' is unknown; valid: {}",
                                 printable(name), fmt::join(kNames, ", ")));
}

fs::path directory_of_run(const std::string& run, const std::string& runs) {
  std::error_code error;
  if (fs::is_directory(tracking::checkpoints_path(run), error)) return run;
  const auto fetched = fs::path(runs) / run;  // with a checkpoint of a mirror, it has no record
  if (is_run_id(run) && fs::is_directory(tracking::checkpoints_path(fetched), error))
    return fetched;
  return catalog::find_run_directory(runs, run);
}

// "RUN" or "RUN:STEP".
ChosenCheckpoints choose_checkpoints(const std::string& word, const std::string& runs) {
  if (formats::has_scheme(word)) throw in_bucket("lockstep ckpt", word);
  const auto colon = word.rfind(':');
  std::optional<int64_t> step;
  if (colon != std::string::npos) {
    int64_t number = 0;
    const auto* const end = word.data() + word.size();
    if (std::from_chars(word.data() + colon + 1, end, number).ptr != end ||
        colon + 1 == word.size())
      throw config_error(fmt::format("'{}': expected RUN:STEP, with a checkpoint's number for STEP",
                                     printable(word)));
    step = number;
  }
  const auto run = directory_of_run(word.substr(0, colon), runs);
  ChosenCheckpoints found{.directory = tracking::checkpoints_path(run)};
  found.steps = list_checkpoints(found.directory);
  if (found.steps.empty())
    throw config_error(fmt::format("'{}' has no checkpoint", printable(run.string(), 300)));
  if (!step) return found;
  if (std::ranges::find(found.steps, *step) == found.steps.end())
    throw config_error(fmt::format("'{}' has no checkpoint {}; there are {} to {}",
                                   printable(run.string(), 300), *step, found.steps.front(),
                                   found.steps.back()));
  found.steps = {*step};
  return found;
}

uint64_t bytes_in(const fs::path& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    if (const auto size = it->file_size(error); !error) bytes += size;
  return bytes;
}

// A base model that is missing or has changed.
struct BaseProblem {
  std::string text;
};

// Calls `use` for each checkpoint. Returns what it returns, or the error, as {"step", ...,
// "problem", "is_corrupt"}; a checkpoint of another version has a problem, but is not corrupt. With
// "base_problem": the checkpoint itself can be read.
Json each(const ChosenCheckpoints& checkpoints, const std::function<Json(int64_t step)>& use) {
  auto list = Json::array();
  for (const auto step : checkpoints.steps) {
    Json line = {{"step", step}, {"bytes", bytes_in(checkpoints.directory / std::to_string(step))}};
    try {
      line.update(use(step));
      line.update({{"problem", nullptr}, {"is_corrupt", false}});
    } catch (const BaseProblem& base) {
      line.update({{"problem", base.text}, {"is_corrupt", false}, {"base_problem", true}});
    } catch (const std::exception& error) {  // also JSON's, for a manifest with missing keys
      std::error_code ignored;
      if (!fs::exists(checkpoints.directory / std::to_string(step), ignored))
        continue;  // an active run has removed it
      const std::string text = error.what();
      line["problem"] = printable(text.substr(0, text.find('\n')), 400);
      line["is_corrupt"] = kind_of(error) != ErrorKind::Config;
    }
    list.push_back(std::move(line));
  }
  return list;
}

bool has_base_problem(const Json& checkpoint) { return checkpoint.value("base_problem", false); }

// The line of a checkpoint that cannot be used.
std::string describe_problem(const Json& checkpoint) {
  const auto problem = checkpoint["problem"].get<std::string>();
  if (has_base_problem(checkpoint)) return "BASE MODEL: " + problem;
  return (checkpoint["is_corrupt"].get<bool>() ? "CORRUPT: " : "OTHER VERSION: ") + problem;
}

// The exit code is Environment's if one is corrupt or its base model has changed, else Config's if one is of another version.
CommandOutput format_checkpoints(const Json& list, bool as_json,
                                 const std::function<std::string(const Json&)>& text) {
  CommandOutput output;
  for (const auto& checkpoint : list) {
    const bool is_read = checkpoint["problem"].is_null();
    if (checkpoint["is_corrupt"].get<bool>() || has_base_problem(checkpoint))
      output.exit_code = static_cast<int>(ErrorKind::Environment);
    else if (!is_read && output.exit_code == 0)
      output.exit_code = static_cast<int>(ErrorKind::Config);
    output.text += fmt::format("{:>10}  {}\n", checkpoint["step"].get<int64_t>(),
                               is_read ? text(checkpoint) : describe_problem(checkpoint));
  }
  if (as_json) output.text = list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return output;
}

CommandOutput list(const CheckpointArguments& words) {
  const auto checkpoints = choose_checkpoints(words.runs[0], words.dir);
  const auto lines = each(checkpoints, [&](int64_t step) -> Json {
    const auto head = read_checkpoint_head(checkpoints.directory, step);
    return {{"epoch", head.position.epoch},
            {"ranks", head.world_size},
            {"averaged_weights", head.ema_updates > 0},
            {"base", head.base.path.empty() ? Json(nullptr) : Json(head.base.path)},
            {"evaluation", head.evaluation}};
  });
  return format_checkpoints(lines, words.as_json, [](const Json& line) {
    auto text = fmt::format("epoch {}, {} rank{}, {}", line["epoch"].get<int64_t>(),
                            line["ranks"].get<int>(), line["ranks"] == 1 ? "" : "s",
                            size_text(line["bytes"].get<uint64_t>()));
    for (const auto& [name, value] : line["evaluation"].items())
      text += fmt::format("  eval/{} {:.4f}", printable(name), value.get<double>());
    if (line["base"].is_string())
      text += fmt::format("  base {}", printable(line["base"].get<std::string>(), 400));
    return text;
  });
}

void require_base(const BaseWeights& base) {
  try {
    read_base(base);
  } catch (const Error& error) {
    throw BaseProblem{error.what()};
  }
}

size_t count_tensors(const Checkpoint& checkpoint) {
  size_t count = 0;
  for (const auto& file : kTensorFiles) count += (checkpoint.*file.tensors).size();
  return count;
}

CommandOutput verify(const CheckpointArguments& words) {
  const auto checkpoints = choose_checkpoints(words.runs[0], words.dir);
  BaseWeights verified;
  const auto lines = each(checkpoints, [&](int64_t step) -> Json {
    const auto checkpoint = read_checkpoint(checkpoints.directory, step);
    const auto& base = checkpoint.head.base;
    if (!base.path.empty() && base != verified) require_base(base);
    verified = base;
    return {{"tensors", count_tensors(checkpoint)}, {"base_tensors", base.checksums.size()}};
  });
  return format_checkpoints(lines, words.as_json, [](const Json& line) {
    const auto base = line["base_tensors"].get<size_t>();
    return fmt::format("ok, {} tensors, {}{}", line["tensors"].get<size_t>(),
                       size_text(line["bytes"].get<uint64_t>()),
                       base > 0 ? fmt::format("; {} of the base model", base) : "");
  });
}

bool have_same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// Counts equal and different tensors, and finds the largest difference.
Json compare(const NamedTensors& a, const NamedTensors& b) {
  std::map<std::string, at::Tensor> others(b.begin(), b.end());
  Json result = {{"same", 0},
                 {"different", 0},
                 {"first", nullptr},
                 {"largest", nullptr},
                 {"only_in_one", Json::array()}};
  double largest = -1;
  for (const auto& [name, tensor] : a) {
    const auto other = others.extract(name);
    if (other.empty()) {
      result["only_in_one"].push_back(name);
      continue;
    }
    const bool same = have_same_bits(tensor, other.mapped());
    auto& count = result[same ? "same" : "different"];
    count = count.get<int64_t>() + 1;
    if (!same && result["first"].is_null()) result["first"] = name;
    if (same || tensor.sizes() != other.mapped().sizes() || tensor.numel() == 0) continue;
    const auto apart = std::fabs(  // NaN without a sign
        (tensor.to(at::kDouble) - other.mapped().to(at::kDouble)).abs().max().item<double>());
    if (std::isnan(largest) || apart <= largest) continue;
    largest = apart;
    result["largest"] = {{"tensor", name}, {"difference", apart}};
  }
  for (const auto& [name, tensor] : others) result["only_in_one"].push_back(name);
  return result;
}

CommandOutput diff(const CheckpointArguments& words) {
  const auto read = [&](const std::string& word) {
    const auto checkpoints = choose_checkpoints(word, words.dir);
    return read_checkpoint(checkpoints.directory, checkpoints.steps.back());
  };
  auto a = read(words.runs[0]), b = read(words.runs[1]);
  Json parts = Json::object();
  CommandOutput output;
  if (a.head.base != b.head.base) {
    add_base(a);
    add_base(b);
  } else if (const auto& base = a.head.base; !base.path.empty()) {
    parts["base"] = {{"path", base.path}, {"same", base.checksums.size()}};
    output.text = fmt::format("{:<10} {} tensors of {} in both\n", "base", base.checksums.size(),
                              printable(base.path, 400));
  }
  for (const auto& file : kTensorFiles) {
    if (!file.is_shared || ((a.*file.tensors).empty() && (b.*file.tensors).empty())) continue;
    const auto part = parts[file.name] = compare(a.*file.tensors, b.*file.tensors);
    const auto alone = part["only_in_one"].size();
    const auto different = part["different"].get<int64_t>();
    if (alone > 0 || different > 0) output.exit_code = 1;
    output.text += fmt::format("{:<10} {} tensors are bit-identical, {} differ", file.name,
                               part["same"].get<int64_t>(), different);
    if (!part["first"].is_null())
      output.text += "; first: " + printable(part["first"].get<std::string>());
    if (!part["largest"].is_null())
      output.text += fmt::format("; largest difference: {} ({:.3g})",
                                 printable(part["largest"]["tensor"].get<std::string>()),
                                 part["largest"]["difference"].get<double>());
    if (alone > 0) output.text += fmt::format("; {} are in only one of them", alone);
    output.text += "\n";
  }
  if (words.as_json) output.text = parts.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return output;
}

CommandOutput fetch(const CheckpointArguments& words) {
  const auto& path = words.runs[0];
  if (!formats::has_scheme(path))
    throw config_error(fmt::format(
        "lockstep ckpt fetch: '{}' is not in a bucket; valid: s3://bucket/prefix/RUN/STEP",
        printable(path, 300)));
  const ObjectCacheConfig defaults;
  use_object_stores(defaults);
  const auto run = mirrored_run(path, defaults.timeout.value);
  const auto checkpoints = tracking::checkpoints_path(fs::path(words.dir) / run.id);
  size_t tensors = 0;
  const auto step =
      fetch_checkpoint(run, checkpoints, [&](const fs::path& fetched, int64_t number) {
        tensors = count_tensors(read_checkpoint(fetched, number));
      });
  const auto place = checkpoints / std::to_string(step);
  return {fmt::format("{}: ok, {} tensors, {}\n", printable(place.string(), 400), tensors,
                      size_text(bytes_in(place)))};
}

}  // namespace

CommandOutput checkpoint_command(const std::vector<std::string>& words, const ShowProgress& show) {
  for (const auto& word : words)
    if (word == "--help" || word == "-h") return {kCheckpointHelp};
  const auto parsed = parse(words);
  if (parsed.command == "list") return list(parsed);
  if (parsed.command == "verify") return verify(parsed);
  if (parsed.command == "diff") return diff(parsed);
  if (parsed.command == "fetch") return fetch(parsed);
  const auto checkpoints = choose_checkpoints(parsed.runs[0], parsed.dir);
  return {export_checkpoint({.checkpoints = checkpoints.directory,
                             .step = checkpoints.steps.back(),
                             .out = parsed.out,
                             .format = format_of(parsed.format),
                             .merge = parsed.merge,
                             .package = parsed.package,
                             .show = show}) +
          "\n"};
}

}  // namespace lockstep::trainer
