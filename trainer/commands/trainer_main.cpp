#include "lockstep/session.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <string>

#include "core/config/config_text.h"
#include "core/config/nearest_name.h"
#include "core/config/plugin.h"
#include "core/config/run_file.h"
#include "core/printable.h"
#include "core/standard_exceptions.h"
#include "core/system/malloc_tuning.h"
#include "launch/hangs/stack_reporter.h"
#include "launch/report/crash_report.h"
#include "launch/report/error_file.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"
#include "lockstep/record.h"
#include "lockstep/version.h"
#include "tracking/runs/on_ranks.h"
#include "trainer/commands/checkpoint_command.h"
#include "trainer/commands/evaluation_command.h"
#include "trainer/commands/first_batch.h"
#include "trainer/commands/generation_command.h"
#include "trainer/commands/inspect_data.h"
#include "trainer/commands/plan_command.h"
#include "trainer/commands/prediction.h"
#include "trainer/commands/store_check.h"
#include "trainer/commands/usage.h"
#include "trainer/lockstep_program.h"
#include "trainer/observed_session.h"

namespace lockstep {
namespace {

enum class Command {
  Train,
  Predict,
  Evaluate,
  Generate,
  InspectData,
  DryRun,
  FirstBatch,
  Checkpoints,
  Plan,
  CheckStore,
  Help,
  Schema,
  Version
};
constexpr auto choices(Command) {
  return std::array{"train",   "predict",     "evaluate",    "generate", "inspect-data",
                    "dry-run", "first-batch", "checkpoints", "plan",     "check-store",
                    "help",    "schema",      "version"};
}

struct Arguments {
  std::vector<std::string> positional;
  std::optional<std::string> resume_id;
  Command command = Command::Train;
  std::string sheet, file;  // file: of predict and first-batch
  trainer::GenerationArguments generation;

  std::string run_file() const;
  std::vector<std::string> overrides() const { return {positional.begin() + 1, positional.end()}; }
  void select(const std::string& option);
};

std::string Arguments::run_file() const {
  if (!positional.empty()) return positional.front();
  if (command == Command::Train)
    throw config_error("no run file given; see lockstep-trainer --help");
  const bool has_file =
      command == Command::Predict || command == Command::Generate || command == Command::FirstBatch;
  throw config_error(fmt::format("no run file given: lockstep-trainer --{}{} CONFIG",
                                 name_of(command), has_file ? " FILE" : ""));
}

// The command that `option` selects.
Command command_of(const std::string& option) {
  constexpr auto kNames = choices(Command{});
  const auto found = std::ranges::find(kNames, std::string_view(option).substr(2));
  return static_cast<Command>(found - kNames.begin());
}

// Selects the command of `option`. Throws Config if another one is selected, unless one of them is
// --help. verify_generation() rejects prompts with other commands.
void Arguments::select(const std::string& option) {
  const auto selected = command_of(option);
  if (command == Command::Help) return;
  if (selected != Command::Help && command != selected && command != Command::Train &&
      command != Command::Generate)
    throw config_error(fmt::format("{} cannot be combined with --{}", option, name_of(command)));
  command = selected;
}

void verify_generation(const Arguments& arguments) {
  const auto& generation = arguments.generation;
  if (arguments.command == Command::Help) return;
  if (generation.out && !generation.has_prompts() && arguments.command != Command::Evaluate)
    throw config_error("--out has no effect without --evaluate, --generate FILE or --prompt TEXT");
  trainer::verify_generation_options(generation);
  if (generation.has_prompts() &&
      (arguments.command != Command::Generate || !arguments.file.empty()))
    throw config_error(fmt::format(
        "{} cannot be combined with --{}", generation.first_option,
        arguments.file.empty() ? name_of(arguments.command) : "predict or --first-batch"));
}

Error unknown_option(const std::string& argument) {
  std::vector<std::string> names = {"--resume",  "--predict",    "--evaluate", "--inspect-data",
                                    "--sheet",   "--dry-run",    "--schema",   "--help",
                                    "--version", "--first-batch"};
  for (const auto& name : trainer::generation_option_names()) names.push_back(name);
  return config_error(fmt::format("unknown option '{}'{}", argument, suggest(argument, names)));
}

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&](const char* what) -> std::string {
      if (i + 1 == argc) throw config_error(fmt::format("{} needs {}", argument, what));
      return argv[++i];
    };
    if (argument == "--help" || argument == "-h") {
      arguments.select("--help");
    } else if (argument == "--schema" || argument == "--version" || argument == "--inspect-data" ||
               argument == "--dry-run" || argument == "--evaluate") {
      arguments.select(argument);
    } else if (argument == "--checkpoints" || argument == "--plan" || argument == "--check-store") {
      // Started by `lockstep ckpt`, `plan` and `doctor`: the remaining arguments are theirs.
      arguments.select(argument);
      arguments.positional.assign(argv + i + 1, argv + argc);
      return arguments;
    } else if (argument == "--resume") {
      arguments.resume_id = value("a run id");
    } else if (argument.starts_with("--resume=")) {
      arguments.resume_id = argument.substr(argument.find('=') + 1);
    } else if (argument == "--sheet") {
      arguments.sheet = value("a file");
    } else if (argument == "--predict" || argument == "--first-batch") {
      arguments.select(argument);
      arguments.file = value("a file");
    } else if (trainer::read_generation_option(argument, value, arguments.generation)) {
      if (arguments.generation.has_prompts() && arguments.command == Command::Train)
        arguments.command = Command::Generate;
    } else if (argument.starts_with("-")) {
      throw unknown_option(argument);
    } else {
      arguments.positional.push_back(argument);
    }
  }
  const auto command = arguments.command;
  if (!arguments.sheet.empty() && command != Command::InspectData && command != Command::Help)
    throw config_error("--sheet has no effect without --inspect-data");
  if (arguments.resume_id && (command == Command::InspectData || command == Command::FirstBatch))
    throw config_error(fmt::format("--resume has no effect with --{}", name_of(command)));
  verify_generation(arguments);
  return arguments;
}

ConsoleOptions console_options() {
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  winsize size{};
  const bool has_size =
      terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return {.out = &std::cout,
          .terminal = terminal,
          .color = terminal && !environment("NO_COLOR"),
          .columns = has_size ? size.ws_col : 80};
}

// `program`: lockstep.
void print_result(const SessionResult& result, const std::filesystem::path& program) {
  if (!tracking::is_main(result.rank)) return;
  // `lockstep verify` removes a temporary run afterwards.
  const bool is_kept = !environment("LOCKSTEP_TEMPORARY_RUN");
  if (!result.reason.empty()) std::cout << result.reason << "\n" << std::flush;
  if (result.stopped == StopReason::Preempted) {
    if (is_kept)
      std::cout << fmt::format("run: {}\nresume with: the same command and --resume {}\n",
                               result.run_dir.string(), result.run_id)
                << std::flush;
    return;
  }
  if (!result.lost.empty()) throw environment_error(result.lost);
  std::string values;
  for (const auto& [name, value] : result.evaluation)
    values +=
        fmt::format("{}  eval/{} {:.4f}", values.empty() ? ":" : "", name, without_nan_sign(value));
  std::cout << fmt::format("done{}\n", values);
  if (is_kept)
    std::cout << fmt::format(
        "run: {0}\ninspect with: {1} runs show {2} --dir {3}\n"
        "              {1} ui --dir {3}   (in a browser)\n",
        result.run_dir.string(), shell_word(trainer::shown_program(program)), result.run_id,
        shell_word(result.run_dir.parent_path().string()));
  std::cout << std::flush;
}

// The page that `lockstep launch` watches, or a private one: an invalid descriptor inherited in the
// environment must not prevent training.
std::unique_ptr<ProgressPage> open_progress_page() {
  try {
    if (const auto fd = environment("LOCKSTEP_PROGRESS_FD"))
      return std::make_unique<ProgressPage>(std::stoi(*fd));
  } catch (const std::exception&) {
  }
  return std::make_unique<ProgressPage>();
}

int train(const Arguments& arguments, int argc, char** argv, const RankEnv& ranks,
          ProgressPage& progress) {
  progress.begin(ranks.rank);
  const launch::StackReporter stack_reporter(progress);
  const auto program = trainer::lockstep_program(ranks.launcher);
  const auto result = trainer::run_observed_session({.config_path = arguments.run_file(),
                                                     .overrides = arguments.overrides(),
                                                     .resume_id = arguments.resume_id,
                                                     .ranks = ranks,
                                                     .command = {argv, argv + argc},
                                                     .console = console_options(),
                                                     .agent_program = program,
                                                     .handle_signals = true},
                                                    progress);
  print_result(result, program);
  return result.signal ? 128 + result.signal : 0;
}

// Exits without static destructors and atexit handlers, in any program: after a failure, they and
// LibTorch's threads may wait for peers that are gone.
[[noreturn]] void end_process(int exit_code) {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

// Returns 0. Throws Environment if the output cannot be written.
int print(std::string_view text) {
  if (std::cout << text << std::flush) return 0;
  if (errno == EPIPE) end_process(128 + SIGPIPE);  // its reader has left
  throw errno_error("cannot write the output");
}

std::string predict(const Arguments& arguments, const RankEnv& ranks, ProgressPage& progress) {
  progress.begin(ranks.rank);
  const launch::StackReporter stack_reporter(progress);
  const auto report = trainer::write_predictions({.config_path = arguments.run_file(),
                                                  .overrides = arguments.overrides(),
                                                  .run_id = arguments.resume_id,
                                                  .out = arguments.file,
                                                  .ranks = ranks,
                                                  .progress = &progress});
  return tracking::is_main(ranks.rank) ? report : "";
}

int evaluate(const Arguments& arguments, const RankEnv& ranks, ProgressPage& progress) {
  progress.begin(ranks.rank);
  const launch::StackReporter stack_reporter(progress);
  trainer::evaluate_weights({.config_path = arguments.run_file(),
                             .overrides = arguments.overrides(),
                             .run_id = arguments.resume_id,
                             .out = arguments.generation.out,
                             .ranks = ranks,
                             .progress = &progress,
                             .print = print});
  return 0;
}

int generate(const Arguments& arguments, const RankEnv& ranks, ProgressPage& progress) {
  progress.begin(ranks.rank);
  const launch::StackReporter stack_reporter(progress);
  trainer::generate_texts({.config_path = arguments.run_file(),
                           .overrides = arguments.overrides(),
                           .run_id = arguments.resume_id,
                           .arguments = arguments.generation,
                           .ranks = ranks,
                           .progress = &progress,
                           .print = print,
                           .streams = ::isatty(STDOUT_FILENO) == 1});
  return 0;
}

// The schema of run files, with the parts of plugins: those that run files name, or, for the schema,
// the plugins themselves.
Json schema_with_plugins(const Arguments& arguments) {
  for (const auto& path : arguments.positional)
    if (is_run_file(path))
      trainer::load_plugins_of(path);
    else if (arguments.command == Command::Schema)
      load_any_plugin(path, TORCH_VERSION);
  return trainer::run_config_schema();
}

int run_command(const Arguments& arguments, int argc, char** argv, const RankEnv& ranks,
                ProgressPage& progress) {
  const auto config = [&] {
    const auto file = arguments.run_file();
    return trainer::load_run_config(file, arguments.overrides());
  };
  const auto print_output = [&](const trainer::CommandOutput& output) {
    print(output.text);
    return output.exit_code;
  };
  switch (arguments.command) {
    case Command::Train: return train(arguments, argc, argv, ranks, progress);
    case Command::Predict: return print(predict(arguments, ranks, progress));
    case Command::Evaluate: return evaluate(arguments, ranks, progress);
    case Command::Generate: return generate(arguments, ranks, progress);
    case Command::InspectData:
      return print(trainer::inspect_data(trainer::prepare_data(config(), ranks), arguments.sheet));
    case Command::DryRun: {
      const auto checked = config();
      checked.run.verify_dir();
      const auto run = trainer::prepare_training(checked, ranks);
      return print(trainer::dry_run(run, arguments.resume_id));
    }
    case Command::FirstBatch:
      trainer::write_first_batch(trainer::prepare_data(config(), ranks), arguments.file);
      return 0;
    case Command::Checkpoints:
      return print_output(trainer::checkpoint_command(
          arguments.positional,
          [](const std::string& line) { std::cerr << "lockstep ckpt: " + line + "\n"; }));
    case Command::Plan: return print_output(trainer::plan_command(arguments.positional));
    case Command::CheckStore: end_process(trainer::check_store(arguments.positional, print));
    case Command::Help: return print(trainer::kUsage + render_help(schema_with_plugins(arguments)));
    case Command::Schema: return print(schema_with_plugins(arguments).dump(2) + "\n");
    case Command::Version:
      return print(fmt::format("lockstep-trainer {} (LibTorch {})\n", kVersion, TORCH_VERSION));
  }
  return 0;
}

[[noreturn]] void fail(const std::exception& error, ProgressPage& progress,
                       const std::optional<std::string>& error_file) {
  auto report = launch::describe_error(error);
  launch::report_failure(progress, report);
  if (const auto first = launch::read_failure(progress)) report.timestamp_us = first->timestamp_us;
  if (error_file) launch::write_error_file(*error_file, report);
  // A single write: if the launcher stops this rank now, the line is complete or absent.
  std::cerr << fmt::format("lockstep-trainer: error: {}\n", report.message);
  end_process(launch::exit_code_of(report));
}

}  // namespace

int trainer_main(int argc, char** argv) {
  disable_malloc_trim();
  c10::initLogging();  // reads TORCH_CPP_LOG_LEVEL
  // Writing to a closed connection, or beyond a limit on file sizes, is reported as an error instead.
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  launch::report_crashes("lockstep-trainer");
  const auto error_file = environment("TORCHELASTIC_ERROR_FILE");
  const auto progress = open_progress_page();
  try {
    return with_standard_exceptions([&] {
      const auto arguments = parse_arguments(argc, argv);
      return run_command(arguments, argc, argv, read_rank_env(), *progress);
    });
  } catch (const std::exception& error) {
    fail(error, *progress, error_file);
  }
}

}  // namespace lockstep
