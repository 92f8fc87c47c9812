// lockstep_printer chat|dataset|model|resume|sampler|sampling|split ARGUMENT...: one run of a command.
// lockstep_printer serve: a run for each line {"arguments": [...], "out": FILE, "err": FILE,
// "timeout_s": N}, in a child process; responds with its exit code, or minus the signal that
// terminated it. Loading LibTorch takes a third of a second, a fork a millisecond.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "lockstep/error.h"
#include "tests/printer/commands.h"

namespace {

using lockstep::printer::Arguments;

int run(Arguments arguments) {
  static const std::map<std::string, int (*)(const Arguments&)> commands = {
      {"chat", lockstep::printer::print_chat},
      {"dataset", lockstep::printer::print_dataset},
      {"model", lockstep::printer::print_model},
      {"resume", lockstep::printer::check_resume},
      {"sampler", lockstep::printer::print_sampler},
      {"sampling", lockstep::printer::print_sampling},
      {"split", lockstep::printer::print_split}};
  const auto command = commands.find(arguments.empty() ? "" : arguments.front());
  if (command == commands.end()) return 64;
  arguments.erase(arguments.begin());
  try {
    return command->second(arguments);
  } catch (const lockstep::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}

void redirect(int stream, const std::string& path, int flags) {
  const int file = ::open(path.c_str(), flags, 0644);
  if (file < 0 || ::dup2(file, stream) < 0) ::_exit(71);
  ::close(file);
}

int run_in_child(const nlohmann::json& request) {
  const auto child = ::fork();
  if (child == 0) {
    ::alarm(request.at("timeout_s"));
    redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
    redirect(STDOUT_FILENO, request.at("out"), O_WRONLY | O_CREAT | O_TRUNC);
    redirect(STDERR_FILENO, request.at("err"), O_WRONLY | O_CREAT | O_TRUNC);
    std::exit(run(request.at("arguments")));
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return 71;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int serve() {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << run_in_child(nlohmann::json::parse(line)) << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments(argv + 1, argv + argc);
  return arguments == Arguments{"serve"} ? serve() : run(std::move(arguments));
}
