#include "cli/runs/runs_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "cli/command_words.h"
#include "cli/runs/runs_changes.h"
#include "cli/runs/runs_view.h"
#include "core/config/launch_sections.h"
#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tracking/log/unix_time.h"
#include "tracking/runs/code_state.h"
#include "tracking/runs/run_tags.h"
#include "tracking/runs/stop_request.h"

namespace lockstep::cli {
namespace {

constexpr const char* kRunsHelp = R"(lockstep runs: list and manage recorded runs

  lockstep runs list   [--tag TAG] [--dir RUNS] [--json]
        list all runs, newest first
  lockstep runs show ID [--diff] [--dir RUNS] [--json]
        show one run: state, metrics, ranks, checkpoints, config; with --diff, only the uncommitted
        changes with which it was started, as a patch
  lockstep runs compare ID ID... [--dir RUNS] [--json]
        show differences between configs and code, and metrics side by side
  lockstep runs export ID --format csv|jsonl [--dir RUNS] [-o FILE]
        export every logged value: metric, step, time, value, rank
  lockstep runs export ID [ID]... --html FILE [--dir RUNS]
        export a run, or a comparison of runs, as one HTML file that works offline
  lockstep runs watch ID [--once] [--dir RUNS]
        follow a run in the terminal: a table with sparklines
  lockstep runs tag ID [+TAG]... [-TAG]... [--note TEXT] [--dir RUNS] [--json]
        add and remove tags, replace the note
  lockstep runs stop ID [--reason TEXT] [--dir RUNS] [--json]
        stop a run after its current step, with a checkpoint; resume it with --resume
  lockstep runs delete ID [--yes] [--dir RUNS] [--json]
        delete a finished run with all its files; asks for confirmation unless --yes is given
  lockstep runs gc [--older-than 30d] [--state failed,lost] [--dry-run] [--dir RUNS] [--json]
        remove leftovers of interrupted commands, unreferenced artifact files and, if a state or an
        age is given, the runs that match all conditions

ID is an id from `list`, the id of a job (all its ranks), a unique prefix of either, or the path of a
run directory in RUNS.
RUNS is the directory of the runs, run.dir of the run file (default: runs). list, show, compare,
export and watch also take the path of the sink `bucket`: s3://bucket/prefix, gs:// or abfss://.
)";

using RunsOptions = cxxopts::ParseResult;

cxxopts::Options make_options(const std::string& command) {
  cxxopts::Options options("lockstep runs " + command);
  const auto text = [] { return cxxopts::value<std::string>(); };
  auto add = options.add_options();
  add("dir", "directory of the runs", text()->default_value(kRunsDir));
  if (command == "export")
    add("format", "csv or jsonl", text()->default_value("csv"))(
        "o,output", "file instead of the terminal", text());
  else
    add("json", "as JSON");
  if (command == "list") add("tag", "only runs with this tag", text());
  if (command == "show") add("diff", "only the uncommitted changes, as a patch");
  if (command == "tag") add("note", "text of the note", text());
  if (command == "stop") add("reason", "reason to record", text()->default_value(""));
  if (command == "delete") add("yes", "do not ask for confirmation");
  if (command == "gc")
    add("older-than", "age", text())("state", "states", text())(
        "dry-run", "list what would be removed, without removing it");
  if (command == "list" || command == "gc") return options;
  options.add_options(kPositional)("id", "the run", cxxopts::value<std::vector<std::string>>());
  options.parse_positional({"id"});
  return options;
}

std::vector<std::string> ids_of(const std::string& command, const RunsOptions& options) {
  const auto ids = options.count("id") ? options["id"].as<std::vector<std::string>>()
                                       : std::vector<std::string>();
  if (ids.empty())
    throw config_error(fmt::format(
        "lockstep runs {}: missing run ID; 'lockstep runs list' lists the runs", command));
  if (command != "compare" && ids.size() > 1)
    throw config_error(fmt::format("lockstep runs {}: unexpected argument '{}'{}", command, ids[1],
                                   command == "tag" ? "; tags begin with + or -" : ""));
  return ids;
}

std::string dir_of(const RunsOptions& options) { return options["dir"].as<std::string>(); }

std::vector<catalog::RunEntry> find(const std::string& command, catalog::RunList& runs,
                                    const RunsOptions& options) {
  return runs.find(ids_of(command, options).front());
}

void list(const RunsOptions& options, std::ostream& out) {
  catalog::RunList runs(dir_of(options));
  auto entries = runs.all();
  if (options.count("tag"))
    std::erase_if(entries,
                  [tag = options["tag"].as<std::string>()](const catalog::RunEntry& entry) {
                    return std::ranges::count(entry.run->tags.tags, tag) == 0;
                  });
  if (options.count("json")) {
    auto json = Json::array();
    for (const auto& entry : entries) json.push_back(entry_json(entry));
    out << catalog::to_text(json, 2) << "\n";
  } else if (!entries.empty()) {
    print_table(entries, tracking::unix_now(), out);
  } else if (options.count("tag")) {
    out << fmt::format("no run has the tag '{}'\n",
                       printable(options["tag"].as<std::string>(), 100));
  } else {
    out << fmt::format("no runs in '{}' yet; start one: lockstep launch -n 2 configs/mnist.yaml\n",
                       dir_of(options));
  }
}

// Prints only what `git apply` accepts: no changes are no output.
void show_diff(const catalog::RunEntry& entry, std::ostream& out, std::ostream& notes) {
  const auto code = tracking::read_code_state(entry.run->dir);
  const auto problem =
      code ? code->problem : std::string("the run has no record of uncommitted changes");
  if (!problem.empty())
    throw config_error(fmt::format("lockstep runs show --diff: {}", printable(problem, 400)));
  out << code->diff;
  if (code->diff.empty()) notes << "no uncommitted changes\n";
  if (!code->note.empty()) notes << printable(code->note, 200) << "\n";
}

void show(const RunsOptions& options, std::ostream& out, std::ostream& notes) {
  catalog::RunList runs(dir_of(options));
  const auto entries = find("show", runs, options);
  if (options.count("diff"))
    show_diff(entries.front(), out, notes);
  else if (options.count("json"))
    out << catalog::to_text(page_json(entries), 2) << "\n";
  else
    print_page(entries, tracking::unix_now(), out);
}

void compare(const RunsOptions& options, std::ostream& out) {
  const auto ids = ids_of("compare", options);
  if (ids.size() < 2)
    throw config_error("lockstep runs compare: expected at least two run IDs, got one");
  catalog::RunList runs(dir_of(options));
  std::vector<std::vector<catalog::RunEntry>> compared;
  for (const auto& id : ids) compared.push_back(runs.find(id));
  const auto comparison = comparison_json(compared);
  if (options.count("json"))
    out << catalog::to_text(comparison, 2) << "\n";
  else
    print_comparison(comparison, out);
}

void export_values(const RunsOptions& options, std::ostream& out, std::ostream& notes) {
  const auto format = options["format"].as<std::string>();
  if (format != "csv" && format != "jsonl")
    throw config_error(fmt::format("lockstep runs export: --format '{}' is unknown{}", format,
                                   suggest(format, {"csv", "jsonl"})));
  const auto file = options.count("output") ? options["output"].as<std::string>() : "";
  if (file.starts_with("--"))
    throw config_error(fmt::format("lockstep runs export: -o needs a file, not '{}'", file));
  if (!file.empty()) verify_output("-o", file);
  catalog::RunList runs(dir_of(options));
  const auto entries = find("export", runs, options);
  print_notes(entries, notes);
  const auto write = format == "csv" ? export_csv : export_jsonl;
  if (file.empty()) return write(entries, out);
  std::ostringstream text;
  write(entries, text);
  write_output_file(file, text.view());
}

// Removes +TAG and -TAG from `words`, as cxxopts would parse "-TAG" as options, and returns them.
std::vector<std::string> extract_tag_changes(std::vector<std::string>& words) {
  std::vector<std::string> changes, rest;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    const bool is_value = i > 0 && (words[i - 1] == "--note" || words[i - 1] == "--dir");
    const bool change = word.starts_with('+') || (word.starts_with('-') && !word.starts_with("--"));
    (change && !is_value ? changes : rest).push_back(word);
  }
  words = rest;
  return changes;
}

void tag(const RunsOptions& options, const std::vector<std::string>& changes, std::ostream& out) {
  const auto note =
      options.count("note") ? std::optional(options["note"].as<std::string>()) : std::nullopt;
  catalog::RunList runs(dir_of(options));
  const auto entry = find("tag", runs, options).front();
  const auto tags = tracking::change_run_tags(entry.run->dir, changes, note);
  const auto& id = entry.info().job_id;
  if (options.count("json"))
    out << catalog::to_text({{"id", id}, {"tags", tags.tags}, {"note", tags.note}}, 2) << "\n";
  else
    out << fmt::format("{}: {}\n", id, tracking::tags_text(tags));
}

void stop(const RunsOptions& options, std::ostream& out) {
  catalog::RunList runs(dir_of(options));
  const auto entry = find("stop", runs, options).front();
  const auto& id = entry.info().job_id;
  const auto state = entry.end().state;
  if (state != RunState::Running)
    throw config_error(
        fmt::format("lockstep runs stop: {} is not running: it is {}", id, state_name(state)));
  tracking::request_stop(entry.run->dir, options["reason"].as<std::string>());
  if (options.count("json"))
    out << catalog::to_text({{"id", id}, {"stop", "requested"}}, 2) << "\n";
  else
    out << fmt::format(
        "{}: stop requested; it will stop after its current step, with a checkpoint\n", id);
}

int change(const std::string& command, const RunsOptions& options, const RunsStreams& streams) {
  const bool json = options.count("json") > 0;
  if (command == "delete") {
    const auto id = ids_of("delete", options).front();
    return delete_run({dir_of(options), id, options.count("yes") > 0, json}, streams);
  }
  const auto text = [&](const char* name) {
    return options.count(name) ? std::optional(options[name].as<std::string>()) : std::nullopt;
  };
  return collect_garbage(
      {dir_of(options), text("older-than"), text("state"), options.count("dry-run") > 0, json},
      streams);
}

}  // namespace

int run_runs_command(const std::vector<std::string>& words, std::ostream& out, std::ostream& notes,
                     const AskUser& ask) {
  const std::vector<std::string> commands = {"list", "show", "compare", "export", "watch",
                                             "tag",  "stop", "delete",  "gc"};
  if (wants_help(words)) {
    out << kRunsHelp;
    return 0;
  }
  if (words.empty()) throw missing_command("lockstep runs", commands);
  const auto& command = words.front();
  if (std::ranges::count(commands, command) == 0)
    throw config_error(
        fmt::format("lockstep runs: unknown command '{}'{}", command, suggest(command, commands)));
  auto rest = words;
  const auto tag_changes =
      command == "tag" ? extract_tag_changes(rest) : std::vector<std::string>();
  auto known = make_options(command);
  const auto options = parse_words(known, rest);
  int code = 0;
  if (command == "list") list(options, out);
  if (command == "show") show(options, out, notes);
  if (command == "compare") compare(options, out);
  if (command == "export") export_values(options, out, notes);
  if (command == "tag") tag(options, tag_changes, out);
  if (command == "stop") stop(options, out);
  if (command == "delete" || command == "gc") code = change(command, options, {out, notes, ask});
  if (!out.flush())
    throw environment_error(fmt::format("lockstep runs {}: cannot write the output", command));
  return code;
}

}  // namespace lockstep::cli
