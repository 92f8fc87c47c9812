// `lockstep ui`: the dashboard.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <limits>
#include <thread>

#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/trainer_program.h"
#include "core/config/launch_sections.h"
#include "core/system/descriptor_limit.h"
#include "core/system/durable_file.h"
#include "dashboard/api/program_output.h"
#include "dashboard/server/dashboard_server.h"
#include "dashboard/server/http_guard.h"
#include "launch/signal_watch.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr const char* kUiHelp = R"(lockstep ui: look at runs, groups and ranks in a browser

  lockstep ui [--dir RUNS] [--port PORT] [--read-only]
  lockstep ui --host 0.0.0.0 [--token-file FILE] [--allow-host NAME]...

Serves the runs of a directory, also while they go on, until it is interrupted. Nothing is needed
besides a browser; nothing is read from the network.

  --dir RUNS         where the runs are kept (run.dir of the run file); default: runs
  --port PORT        default: the first free one from 8080 on
  --read-only        runs cannot be tagged, stopped or deleted
  --host ADDRESS     where to listen; default 127.0.0.1, which only this machine reaches. From another
                     machine, better: ssh -L 8080:localhost:8080 THIS_MACHINE
  --token-file FILE  what everybody has to know first: the file's text, at least 16 characters, readable
                     by its owner alone. Beyond this machine one is required; without a file one is
                     made up, and only the link that is printed lets in, once
  --allow-host NAME  a name by which browsers may call it, besides addresses and this machine's own
)";

constexpr int kMappedBytes = 1 << 20;
constexpr size_t kMinTokenLength = 16, kMaxTokenFileLength = 4096;

std::string read_token(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    throw config_error(fmt::format("--token-file {}: there is no such file", path));
  if ((info.st_mode & 077) != 0)
    throw config_error(
        fmt::format("--token-file {}: others can read it; chmod 600 {}", path, path));
  auto token = read_file(path, kMaxTokenFileLength);
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back()))) token.pop_back();
  if (token.size() < kMinTokenLength)
    throw config_error(
        fmt::format("--token-file {}: a token has at least {} characters", path, kMinTokenLength));
  return token;
}

std::string machine_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? dashboard::host_without_port(name) : "";
}

// Asked once, in the background; nobody waits for it, also not at the end.
std::function<std::string()> schema_of_trainer() {
  std::promise<std::string> told;
  auto schema = std::make_shared<std::shared_future<std::string>>(told.get_future().share());
  std::thread([told = std::move(told), program = trainer_program()]() mutable {
    told.set_value(dashboard::program_output({program, "--schema"}, std::chrono::seconds(20)));
  }).detach();
  return [schema] {
    return schema->wait_for(std::chrono::seconds(0)) == std::future_status::ready ? schema->get()
                                                                                  : std::string();
  };
}

int port_of(const cxxopts::ParseResult& parsed) {
  const auto port = parsed["port"].as<int>();
  if (port < 0 || port > 65535)
    throw config_error(fmt::format("lockstep ui: --port {} is none; valid are 1 to 65535", port));
  return port;
}

dashboard::DashboardOptions dashboard_options(const cxxopts::ParseResult& parsed) {
  dashboard::DashboardOptions options{.runs = parsed["dir"].as<std::string>(),
                                      .host = parsed["host"].as<std::string>(),
                                      .port = port_of(parsed),
                                      .actions = parsed.count("read-only") == 0};
  for (const auto& name : all_values(parsed, "allow-host"))
    options.host_names.push_back(dashboard::host_without_port(name));
  options.host_names.push_back(dashboard::host_without_port(options.host));
  options.host_names.push_back(machine_name());
  std::erase(options.host_names, "");
  if (parsed.count("token-file"))
    options.token = read_token(parsed["token-file"].as<std::string>());
  else if (!dashboard::is_loopback_name(options.host))
    options.token = dashboard::random_secret();
  return options;
}

}  // namespace

int ui_command(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (argc > 1 && wants_help({words.begin() + 1, words.end()})) {
    fmt::print("{}", kUiHelp);
    return 0;
  }
  cxxopts::Options known("lockstep ui");
  const auto text = [] { return cxxopts::value<std::string>(); };
  known.add_options()("dir", "", text()->default_value(kRunsDir))(
      "host", "", text()->default_value("127.0.0.1"))(
      "port", "", cxxopts::value<int>()->default_value("0"))("token-file", "", text())(
      "allow-host", "", cxxopts::value<std::vector<std::string>>())("read-only", "");
  auto options = dashboard_options(parse_words(known, words));
  launch::SignalWatch signals;  // before there are threads
  // Large answers go back to the system when they are sent. By default every thread that once made
  // one keeps its memory.
  ::mallopt(M_MMAP_THRESHOLD, kMappedBytes);
  // Many ranks of many runs may be followed at once.
  raise_descriptor_limit(std::numeric_limits<uint64_t>::max());
  options.schema = schema_of_trainer();
  dashboard::DashboardServer server(options);
  fmt::print("dashboard of {}: {}{}\n", options.runs.string(), server.link(),
             options.token.empty() ? "" : "  (the link works once)");
  std::fflush(stdout);
  auto wanted = signals.poll_request();
  while (!signals.next()) ::poll(&wanted, 1, -1);
  server.stop();
  // A thread may hang in a slow connection; all that was changed is on the disk.
  std::fflush(nullptr);
  std::_Exit(0);
}

}  // namespace lockstep::cli
