// `lockstep ui`: serves the dashboard.
#include <fmt/format.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <limits>
#include <thread>

#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/runs_place.h"
#include "cli/trainer_program.h"
#include "core/config/launch_sections.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "core/system/descriptor_limit.h"
#include "core/system/durable_file.h"
#include "core/trimmed.h"
#include "dashboard/server/dashboard_server.h"
#include "dashboard/server/http_guard.h"
#include "launch/signal_watch.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr const char* kUiHelp = R"(lockstep ui: serve the dashboard of runs, groups and ranks

  lockstep ui [--dir RUNS] [--port PORT] [--read-only]
  lockstep ui --host 0.0.0.0 [--token-file FILE] [--allow-host NAME]...
  lockstep ui --receive --tokens FILE [--host ADDRESS]
  lockstep ui token add NAME --role read|write|send --tokens FILE

Serves the runs of a directory, finished or running, until interrupted. Needs only a browser; loads
nothing from the network.

  --dir RUNS         directory of the runs, run.dir of the run file (default: runs); or
                     s3://bucket/prefix, the path of the sink `bucket`: read-only
  --port PORT        port to listen on (default: the first free one from 8080)
  --read-only        disable tagging, stopping and deleting runs
  --host ADDRESS     address to listen on (default: 127.0.0.1, this machine only). From another
                     machine, prefer: ssh -L 8080:localhost:8080 THIS_MACHINE
  --token-file FILE  file with the access token: at least 16 characters, readable by its owner only.
                     A token is required if --host is not a loopback address; without a file, one is
                     generated, and the printed link grants access once
  --tokens FILE      file of tokens with roles, made by `lockstep ui token`; changes apply immediately
  --allow-host NAME  additional host name that browsers may use, besides addresses and the name of
                     this machine; repeatable
  --receive          store runs that other machines send with the sink `collector`; requires a token,
                     also on this machine
  --max-runs N       with --receive: largest number of runs in the directory (default: 10000)
  --max-run-gb N     with --receive: largest size of a run in 10^9 bytes (default: 64)
  --min-free-gb N    with --receive: disk space to leave free in 10^9 bytes (default: 1)
)";

constexpr int kMappedBytes = 1 << 20;
constexpr size_t kMinTokenLength = 16, kMaxTokenFileLength = 4096;
constexpr uint64_t kBytesPerGb = 1'000'000'000;

std::string read_token(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    throw config_error(fmt::format("--token-file {}: there is no such file", path));
  if ((info.st_mode & 077) != 0)
    throw config_error(
        fmt::format("--token-file {}: others can read it; chmod 600 {}", path, path));
  const auto text = read_file(path, kMaxTokenFileLength);
  const std::string token(trimmed(text, " \t\r\n"));
  if (token.size() < kMinTokenLength)
    throw config_error(
        fmt::format("--token-file {}: token is too short; expected at least {} characters", path,
                    kMinTokenLength));
  return token;
}

std::string machine_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? dashboard::host_without_port(name) : "";
}

// Runs once, in a detached thread that no other thread waits for.
std::function<std::string()> schema_of_trainer() {
  std::promise<std::string> promise;
  auto schema = std::make_shared<std::shared_future<std::string>>(promise.get_future().share());
  std::thread([promise = std::move(promise)]() mutable {
    promise.set_value(run_file_schema());
  }).detach();
  return [schema] {
    return schema->wait_for(std::chrono::seconds(0)) == std::future_status::ready ? schema->get()
                                                                                  : std::string();
  };
}

int port_of(const cxxopts::ParseResult& parsed) {
  const auto port = parsed["port"].as<int>();
  if (port < 0 || port > 65535)
    throw config_error(
        fmt::format("lockstep ui: --port {}: expected a number from 0 to 65535", port));
  return port;
}

uint64_t number_of(const cxxopts::ParseResult& parsed, const char* name) {
  const auto text = parsed[name].as<std::string>();
  const auto number = parse_number<uint32_t>(text);
  if (!number)
    throw config_error(
        fmt::format("lockstep ui: --{} {}: expected a whole number from 0", name, printable(text)));
  return *number;
}

tracking::ReceiveLimits receive_limits(const cxxopts::ParseResult& parsed) {
  return {.max_runs = number_of(parsed, "max-runs"),
          .max_run_bytes = number_of(parsed, "max-run-gb") * kBytesPerGb,
          .min_free_bytes = number_of(parsed, "min-free-gb") * kBytesPerGb};
}

dashboard::DashboardOptions dashboard_options(const cxxopts::ParseResult& parsed) {
  dashboard::DashboardOptions options{.runs = parsed["dir"].as<std::string>(),
                                      .host = parsed["host"].as<std::string>(),
                                      .port = port_of(parsed),
                                      .actions = parsed.count("read-only") == 0,
                                      .receives = parsed.count("receive") > 0,
                                      .receive_limits = receive_limits(parsed)};
  for (const auto& name : all_values(parsed, "allow-host"))
    options.host_names.push_back(dashboard::host_without_port(name));
  options.host_names.push_back(dashboard::host_without_port(options.host));
  options.host_names.push_back(machine_name());
  std::erase(options.host_names, "");
  if (parsed.count("tokens")) options.tokens_file = parsed["tokens"].as<std::string>();
  if (parsed.count("token-file"))
    options.token = read_token(parsed["token-file"].as<std::string>());
  else if (!dashboard::is_loopback_name(options.host) && !parsed.count("tokens") &&
           !options.receives)  // a sender needs a token that its user knows
    options.token = dashboard::random_secret();
  return options;
}

}  // namespace

int ui_command(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  if (argc > 1 && words[1] == "token") return ui_token_command({words.begin() + 1, words.end()});
  if (wants_help({argv + 1, argv + argc})) {
    fmt::print("{}", kUiHelp);
    return 0;
  }
  cxxopts::Options known("lockstep ui");
  const auto text = [] { return cxxopts::value<std::string>(); };
  known.add_options()("dir", "", text()->default_value(kRunsDir))(
      "host", "", text()->default_value("127.0.0.1"))(
      "port", "", cxxopts::value<int>()->default_value("0"))("token-file", "", text())(
      "tokens", "", text())("allow-host", "", cxxopts::value<std::vector<std::string>>())(
      "read-only", "")("receive", "")("max-runs", "", text()->default_value("10000"))(
      "max-run-gb", "", text()->default_value("64"))("min-free-gb", "", text()->default_value("1"));
  auto options = dashboard_options(parse_words(known, words));
  launch::SignalWatch signals;  // before any thread is started
  // Returns the memory of large responses to the system once they are sent. By default, each thread
  // keeps the memory of the largest one that it has built.
  ::mallopt(M_MMAP_THRESHOLD, kMappedBytes);
  // Many event logs may be open at the same time.
  raise_descriptor_limit(std::numeric_limits<uint64_t>::max());
  options.schema = schema_of_trainer();
  options.warn = [](const std::string& problem) {
    fmt::print(stderr, "lockstep ui: warning: {}\n", problem);
  };
  const auto dir = options.runs.string();
  if (is_in_store(dir) && options.receives)
    throw config_error("lockstep ui: --receive needs a directory of this machine, not " + dir);
  RunsPlace place(dir, {}, RunsPlace::Keeps::UpToDate, options.warn);
  if (!place.wait([&] { return signals.next().has_value(); })) std::_Exit(0);
  options.actions = options.actions && !is_in_store(dir);
  options.runs = place.directory();
  dashboard::DashboardServer server(options);
  fmt::print("dashboard of {}: {}{}\n", dir, server.link(),
             options.token.empty() && options.tokens_file.empty() ? "" : "  (the link works once)");
  std::fflush(stdout);
  auto wanted = signals.poll_request();
  while (!signals.next()) ::poll(&wanted, 1, -1);
  server.stop();
  // Threads may hang in slow connections. All changes are already on disk.
  std::fflush(nullptr);
  std::_Exit(0);
}

}  // namespace lockstep::cli
