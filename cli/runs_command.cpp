#include "cli/runs_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <cxxopts.hpp>
#include <iostream>
#include <sstream>

#include "cli/commands.h"
#include "cli/runs_view.h"
#include "core/durable_file.h"
#include "core/error.h"
#include "core/nearest_name.h"

namespace lockstep {
namespace {

constexpr const char* kHelp = R"(lockstep runs: what was trained here

  lockstep runs list   [--dir RUNS] [--json]
        all runs, newest first
  lockstep runs show ID [--dir RUNS] [--json]
        one run: state, metrics, ranks, checkpoints, config
  lockstep runs export ID --format csv|jsonl [--dir RUNS] [-o FILE]
        every logged value: metric, step, time, value, rank

ID is what `list` shows, the id of a job (all its ranks), or a beginning that no other run shares.
RUNS is where the runs are kept (run.dir of the run file); default: runs
)";

cxxopts::Options make_options(const std::string& command) {
  cxxopts::Options options("lockstep runs " + command);
  options.add_options()("dir", "where the runs are kept",
                        cxxopts::value<std::string>()->default_value("runs"));
  options.allow_unrecognised_options();
  if (command == "export")
    options.add_options()("format", "csv or jsonl",
                          cxxopts::value<std::string>()->default_value("csv"))(
        "o,output", "file instead of the terminal", cxxopts::value<std::string>());
  else
    options.add_options()("json", "as JSON");
  if (command != "list") {
    options.add_options()("id", "the run", cxxopts::value<std::string>());
    options.parse_positional({"id"});
  }
  return options;
}

Error unexpected(const std::string& command, const std::string& word) {
  if (!word.starts_with('-'))
    return config_error(
        fmt::format("lockstep runs {}: '{}' is one argument too many", command, word));
  const std::vector<std::string> valid =
      command == "export" ? std::vector<std::string>{"--dir", "--format", "--output"}
                          : std::vector<std::string>{"--dir", "--json"};
  return config_error(
      fmt::format("lockstep runs {}: unknown option '{}'{}", command, word, suggest(word, valid)));
}

// cxxopts' exceptions are turned into Config errors right where they arise.
cxxopts::ParseResult parse(const std::string& command, const std::vector<std::string>& words) {
  std::vector<const char*> argv;
  for (const auto& word : words) argv.push_back(word.c_str());
  auto options = make_options(command);
  try {
    auto parsed = options.parse(static_cast<int>(argv.size()), argv.data());
    if (!parsed.unmatched().empty()) throw unexpected(command, parsed.unmatched().front());
    return parsed;
  } catch (const cxxopts::exceptions::exception& error) {
    throw config_error(
        fmt::format("lockstep runs {}: {}; see lockstep runs --help", command, error.what()));
  }
}

std::vector<RunRecord> find(const std::string& command, const cxxopts::ParseResult& options) {
  if (!options.count("id"))
    throw config_error(
        fmt::format("lockstep runs {}: which run? Give its ID, see lockstep runs list", command));
  return find_run(options["dir"].as<std::string>(), options["id"].as<std::string>());
}

void list(const cxxopts::ParseResult& options, std::ostream& out) {
  const auto dir = options["dir"].as<std::string>();
  const auto records = list_runs(dir);
  if (options.count("json")) {
    auto json = Json::array();
    for (const auto& record : records) json.push_back(entry_json(record));
    out << json_text(json, 2) << "\n";
  } else if (records.empty()) {
    out << fmt::format("no runs in '{}' yet; start one: lockstep launch -n 2 configs/mnist.yaml\n",
                       dir);
  } else {
    print_table(records, static_cast<double>(std::time(nullptr)), out);
  }
}

void show(const cxxopts::ParseResult& options, std::ostream& out) {
  const auto records = find("show", options);
  if (options.count("json"))
    out << json_text(page_json(records), 2) << "\n";
  else
    print_page(records, static_cast<double>(std::time(nullptr)), out);
}

void export_values(const cxxopts::ParseResult& options, std::ostream& out, std::ostream& notes) {
  const auto format = options["format"].as<std::string>();
  if (format != "csv" && format != "jsonl")
    throw config_error(fmt::format("lockstep runs export: --format '{}' is unknown{}", format,
                                   suggest(format, {"csv", "jsonl"})));
  const auto records = find("export", options);
  for (const auto& record : records)
    for (const auto& note : record.notes)
      notes << "note: " << record.info.id << ": " << note << "\n";
  const auto write = format == "csv" ? export_csv : export_jsonl;
  if (!options.count("output")) return write(records, out);
  std::ostringstream text;
  write(records, text);
  write_file_durably(options["output"].as<std::string>(), text.view());
}

}  // namespace

int run_runs_command(const std::vector<std::string>& words, std::ostream& out,
                     std::ostream& notes) {
  const std::vector<std::string> commands = {"list", "show", "export"};
  const auto wants_help = [](const std::string& word) {
    return word == "--help" || word == "-h" || word == "help";
  };
  if (words.empty() || std::ranges::any_of(words, wants_help)) {
    out << kHelp;
    return 0;
  }
  const auto& command = words.front();
  if (std::ranges::count(commands, command) == 0)
    throw config_error(
        fmt::format("lockstep runs: unknown command '{}'{}", command, suggest(command, commands)));
  const auto options = parse(command, words);
  if (command == "list") list(options, out);
  if (command == "show") show(options, out);
  if (command == "export") export_values(options, out, notes);
  if (!out.flush())
    throw environment_error(fmt::format("lockstep runs {}: the output cannot be written", command));
  return 0;
}

int runs_command(int argc, char** argv) {
  return run_runs_command({argv + 1, argv + argc}, std::cout, std::cerr);
}

}  // namespace lockstep
