#include "cli/sweep/sweep_subcommands.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <ostream>
#include <sstream>

#include "catalog/index/column_spool.h"
#include "catalog/run_list.h"
#include "cli/command_words.h"
#include "cli/sweep/sweep_list.h"
#include "cli/sweep/sweep_view.h"
#include "cli/sweep/trial_runs.h"
#include "core/config/config_text.h"
#include "core/config/launch_sections.h"
#include "core/config/nearest_name.h"
#include "core/config/run_file.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"
#include "sweep/pruning.h"
#include "sweep/ranking.h"
#include "sweep/sweep_json.h"
#include "tracking/log/unix_time.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using sweep::SweepDirectory;
using sweep::Trial;
using sweep::TrialSource;
using sweep::TrialState;
using SweepWords = cxxopts::ParseResult;

const std::vector<std::string> kSubcommands = {"list",   "show", "best", "stop",
                                               "export", "add",  "ask",  "tell"};

cxxopts::Options known_options(const std::string& command) {
  cxxopts::Options options("lockstep sweep " + command);
  const auto text = [] { return cxxopts::value<std::string>(); };
  auto add = options.add_options();
  add("dir", "", text()->default_value(kRunsDir))("json", "");
  if (command == "best") add("trial", "", cxxopts::value<int64_t>());
  if (command == "best" || command == "export") add("o,output", "", text());
  if (command == "export") add("format", "", text()->default_value("csv"));
  if (command == "add") add("run", "", text());
  if (command == "tell")
    add("value", "", cxxopts::value<std::vector<std::string>>())(
        "step", "", cxxopts::value<int64_t>())("pruned", "")("failed", "", text())("released", "");
  options.add_options(kPositional)("words", "", cxxopts::value<std::vector<std::string>>());
  options.parse_positional({"words"});
  return options;
}

std::vector<std::string> positional(const SweepWords& parsed) {
  return parsed.count("words") ? parsed["words"].as<std::vector<std::string>>()
                               : std::vector<std::string>();
}

SweepDirectory find_sweep(const std::string& command, const SweepWords& parsed) {
  const auto words = positional(parsed);
  if (words.empty())
    throw config_error(fmt::format(
        "lockstep sweep {}: missing name of the sweep; see `lockstep sweep list`", command));
  const auto& name = words.front();
  std::error_code error;
  if (fs::exists(fs::path(name) / "sweep.json", error))
    return SweepDirectory(fs::absolute(name).lexically_normal());
  const auto sweeps = sweep::sweeps_path(parsed["dir"].as<std::string>());
  if (fs::exists(sweeps / name / "sweep.json", error)) return SweepDirectory(sweeps / name);
  const auto names = sweep::sweep_names(parsed["dir"].as<std::string>());
  throw config_error(fmt::format("lockstep sweep {}: there is no sweep '{}' in '{}'{}", command,
                                 name, parsed["dir"].as<std::string>(),
                                 names.empty() ? "" : suggest(name, names)));
}

void refuse_more_than(size_t count, const std::string& command, const SweepWords& parsed) {
  const auto words = positional(parsed);
  if (words.size() > count)
    throw config_error(
        fmt::format("lockstep sweep {}: unexpected argument '{}'", command, words[count]));
}

Trial trial_at(const SweepDirectory& sweep, const std::string& command, int64_t number) {
  if (auto trial = sweep.find(number)) return *trial;
  throw config_error(fmt::format("lockstep sweep {}: there is no trial {}", command, number));
}

void write_or_print(const SweepWords& parsed, const std::string& text, std::ostream& out) {
  if (parsed.count("output"))
    write_output_file(parsed["output"].as<std::string>(), text);
  else
    out << text;
}

// The run file of the sweep with the parameters of a trial.
std::string run_file_of(const SweepDirectory& sweep, const Trial& trial) {
  const auto root =
      read_run_file(sweep.run_file(), sweep::overrides_of(trial.parameters),
                    [](const std::string& name) { return environment(name.c_str()); });
  return fmt::format("# {} of the sweep {}\n", trial_text(sweep, trial), sweep.file().name) +
         to_yaml(with_escaped_variables(sweep::to_json(root)));
}

void show_best(const SweepDirectory& sweep, const SweepWords& parsed, std::ostream& out) {
  std::vector<Trial> best;
  if (parsed.count("trial"))
    best = {trial_at(sweep, "best", parsed["trial"].as<int64_t>())};
  else
    best = sweep::best_of(sweep.file().objective.all, sweep.trials());
  if (best.empty())
    throw config_error(
        fmt::format("lockstep sweep best: no trial of '{}' has finished yet", sweep.file().name));
  if (parsed.count("output")) {
    if (best.size() > 1)
      throw config_error(
          fmt::format("lockstep sweep best: {} trials are best, none in all objectives; choose one "
                      "with --trial",
                      best.size()));
    write_output_file(parsed["output"].as<std::string>(), run_file_of(sweep, best.front()));
  }
  if (parsed.count("json")) {
    auto list = Json::array();
    for (const auto& trial : best) list.push_back(to_json(trial));
    out << list.dump(2) << "\n";
  } else {
    for (const auto& trial : best) out << trial_text(sweep, trial) << "\n";
  }
}

void stop_sweep(const SweepDirectory& sweep, const SweepWords& parsed, std::ostream& out) {
  if (!sweep.is_controlled())
    throw config_error(fmt::format("lockstep sweep stop: '{}' is not running", sweep.file().name));
  sweep.request_stop();
  if (parsed.count("json"))
    out << Json({{"name", sweep.file().name}, {"stop", "requested"}}).dump(2) << "\n";
  else
    out << fmt::format("{}: stop requested\n", sweep.file().name);
}

void export_sweep(const SweepDirectory& sweep, const SweepWords& parsed, std::ostream& out) {
  const auto format = parsed["format"].as<std::string>();
  if (format != "csv" && format != "jsonl")
    throw config_error(fmt::format("lockstep sweep export: --format '{}' is unknown{}", format,
                                   suggest(format, {"csv", "jsonl"})));
  std::ostringstream text;
  export_trials(sweep, format == "csv" && !parsed.count("json"), text);
  write_or_print(parsed, text.str(), out);
}

// The trial as a caller needs it to run it.
Json handed_out(const Trial& trial) {
  return {{"trial", trial.number},
          {"parameters", trial.parameters},
          {"overrides", sweep::overrides_of(trial.parameters)}};
}

// The point of "optimizer.lr=0.1" words.
sweep::Point point_of(const std::vector<std::string>& assignments) {
  sweep::Point point = Json::object();
  for (const auto& assignment : assignments) {
    const auto equals = assignment.find('=');
    if (equals == std::string::npos)
      throw config_error(fmt::format("lockstep sweep add: '{}': expected KEY=VALUE", assignment));
    auto root = parse_config("{}", "argument");
    apply_override(root, "value" + assignment.substr(equals));
    point[assignment.substr(0, equals)] = sweep::to_json(*root.find("value"));
  }
  return point;
}

const Json* value_at(const Json& config, const std::string& key) {
  const auto* at = &config;
  std::istringstream parts(key);
  for (std::string part; std::getline(parts, part, '.');) {
    if (!at->is_object() || !at->contains(part)) return nullptr;
    at = &at->at(part);
  }
  return at;
}

// A run as a trial: its point and its values.
Trial import_run(const SweepDirectory& sweep, const std::string& id) {
  const auto dir = catalog::find_run_directory(sweep.runs(), id);
  catalog::RunList runs(sweep.runs());
  const auto entry = runs.find(dir.filename()).front();
  if (entry.end().state != RunState::Finished)
    throw config_error(fmt::format("lockstep sweep add: the run {} is {}, not finished", id,
                                   state_name(entry.end().state)));
  const auto config = entry.config();
  sweep::Point point = Json::object();
  const auto& file = sweep.file();
  for (const auto& parameter : file.space.parameters)
    if (file.space.is_active(parameter, point))
      if (const auto* value = value_at(config, parameter.key)) point[parameter.key] = *value;
  catalog::NameTable names;
  catalog::ColumnSpool spool({sweep.path(), "/var/tmp", "/tmp"});
  catalog::RunLogs logs(dir, names, &spool, catalog::Links::Follow);
  logs.catch_up();
  const auto logged = read_objectives(logs, names, file.objective.all);
  Trial trial{.by = TrialSource::Import, .parameters = point, .state = TrialState::Finished};
  for (size_t i = 0; i < logged.values.size(); ++i) {
    if (!logged.values[i])
      throw config_error(fmt::format("lockstep sweep add: the run {} did not log '{}'{}", id,
                                     file.objective.all[i].metric,
                                     suggest(file.objective.all[i].metric, logged.metrics)));
    trial.values.push_back(*logged.values[i]);
  }
  trial.evaluations = logged.evaluations;
  trial.runs = {dir.filename()};
  return trial;
}

void add_trial(const SweepDirectory& sweep, const SweepWords& parsed, std::ostream& out) {
  auto words = positional(parsed);
  words.erase(words.begin());
  if (words.empty() == !parsed.count("run"))
    throw config_error("lockstep sweep add: expected either KEY=VALUE... or --run ID");
  std::optional<Trial> trial;
  if (parsed.count("run"))
    trial = sweep.add_finished(import_run(sweep, parsed["run"].as<std::string>()));
  else
    trial = sweep.add(TrialSource::Hand, point_of(words));
  if (parsed.count("json"))
    out << to_json(*trial).dump(2) << "\n";
  else
    out << trial_text(sweep, *trial) << "\n";
}

void ask(const SweepDirectory& sweep, const SweepWords& parsed, std::ostream& out) {
  const auto trial = sweep.hand_out();
  if (parsed.count("json"))
    out << (trial ? handed_out(*trial) : Json({{"trial", nullptr}})).dump() << "\n";
  else
    out << (trial ? trial_text(sweep, *trial) : "no more trials: the budget is used up") << "\n";
}

double parse_value(const std::string& text) {
  double value = 0;
  const auto* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc{} || parsed.ptr != end)
    throw config_error(fmt::format("lockstep sweep tell: --value '{}': expected a number", text));
  return value;
}

// Stores the reported result in `trial`. Returns why it should be stopped, or "".
std::string take_result(const SweepDirectory& sweep, const SweepWords& parsed, Trial& trial) {
  std::vector<double> values;
  for (const auto& text : all_values(parsed, "value")) values.push_back(parse_value(text));
  const auto expect = [&](size_t count) {
    if (values.size() != count)
      throw config_error(
          fmt::format("lockstep sweep tell: expected {} --value, got {}", count, values.size()));
  };
  const std::vector<const char*> kinds = {"step", "pruned", "failed", "released"};
  if (std::ranges::count_if(kinds, [&](const char* kind) { return parsed.count(kind) > 0; }) > 1)
    throw config_error(
        "lockstep sweep tell: expected only one of --step, --pruned, --failed and --released");
  if (parsed.count("step")) {
    expect(1);
    auto others = sweep.trials();
    std::erase_if(others, [&](const Trial& other) { return other.number == trial.number; });
    trial.evaluations.push_back({parsed["step"].as<int64_t>(), values.front()});
    trial.reason =
        sweep::why_pruned(sweep.file().pruning, sweep.file().first(), trial.evaluations, others);
    return trial.reason;
  }
  trial.is_handed_out = false;
  if (!parsed.count("pruned")) trial.reason.clear();
  if (parsed.count("released")) {
    expect(0);
    trial.evaluations.clear();  // it begins again
    return {};
  }
  trial.ended = tracking::unix_now();
  if (parsed.count("failed")) {
    expect(0);
    trial.state = TrialState::Failed;
    trial.reason = parsed["failed"].as<std::string>();
  } else if (parsed.count("pruned")) {
    expect(0);
    if (trial.evaluations.empty())
      throw config_error("lockstep sweep tell: --pruned needs an evaluation, reported with --step");
    trial.state = TrialState::Pruned;
    trial.values = {trial.evaluations.back().value};
  } else {
    expect(sweep.file().objective.all.size());
    trial.state = TrialState::Finished;
    trial.values = values;
  }
  return {};
}

void tell(const SweepDirectory& sweep, const SweepWords& parsed, std::ostream& out) {
  const auto words = positional(parsed);
  int64_t number = -1;
  if (words.size() > 1) {
    const auto& text = words[1];
    const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
    if (end.ec != std::errc{} || end.ptr != text.data() + text.size()) number = -1;
  }
  if (number < 0) throw config_error("lockstep sweep tell: expected the number of a trial");
  const auto lock = sweep.lock_changes();
  auto trial = trial_at(sweep, "tell", number);
  if (!trial.is_open())
    throw config_error(
        fmt::format("lockstep sweep tell: trial {} is already {}", number, name_of(trial.state)));
  if (!trial.is_handed_out)
    throw config_error(
        fmt::format("lockstep sweep tell: trial {} is not handed out by ask", number));
  const auto reason = take_result(sweep, parsed, trial);
  sweep.write(trial);
  if (parsed.count("json"))
    out << Json({{"trial", number}, {"prune", !reason.empty()}, {"reason", reason}}).dump() << "\n";
  else
    out << (reason.empty() ? trial_text(sweep, trial) : "stop it: " + reason) << "\n";
}

}  // namespace

bool is_sweep_subcommand(const std::string& word) {
  return std::ranges::count(kSubcommands, word) > 0;
}

void run_sweep_subcommand(const std::vector<std::string>& words, std::ostream& out) {
  if (words.empty())
    throw config_error("lockstep sweep: a sweep file (*.yaml) or a command is missing" +
                       suggest("", kSubcommands));
  const auto& command = words.front();
  if (!is_sweep_subcommand(command))
    throw config_error(
        fmt::format("lockstep sweep: '{}' is neither a sweep file (*.yaml) nor a "
                    "command{}",
                    command, suggest(command, kSubcommands)));
  auto known = known_options(command);
  const auto parsed = parse_words(known, words);
  if (command == "list") {
    refuse_more_than(0, command, parsed);
    return print_sweeps(parsed["dir"].as<std::string>(), parsed.count("json") > 0, out);
  }
  const auto sweep = find_sweep(command, parsed);
  if (command != "add") refuse_more_than(command == "tell" ? 2 : 1, command, parsed);
  if (command == "show" && parsed.count("json"))
    out << sweep::sweep_json(sweep).dump(2) << "\n";
  else if (command == "show")
    print_sweep(sweep, out);
  if (command == "best") show_best(sweep, parsed, out);
  if (command == "stop") stop_sweep(sweep, parsed, out);
  if (command == "export") export_sweep(sweep, parsed, out);
  if (command == "add") add_trial(sweep, parsed, out);
  if (command == "ask") ask(sweep, parsed, out);
  if (command == "tell") tell(sweep, parsed, out);
}

}  // namespace lockstep::cli
