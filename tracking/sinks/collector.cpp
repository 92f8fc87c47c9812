// The collector sink: sends the files of the run to a dashboard that receives runs, `lockstep ui
// --receive`. Records are not converted: event logs are copied (tracking/copies/run_sender.h).
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "core/config/period.h"
#include "core/system/durable_file.h"
#include "core/trimmed.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"
#include "lockstep/sink.h"
#include "tracking/copies/run_files.h"
#include "tracking/copies/run_sender.h"
#include "tracking/http/public_url.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/event_log_segment.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kMaxCollectorTokenBytes = 4096;
constexpr auto kOtherAgentsTimeout = std::chrono::seconds(10);
constexpr int kOtherAgentsPollMs = 50;

struct CollectorConfig {
  std::optional<PublicUrl> url;
  std::optional<std::string> token_file;
  std::optional<std::string> ca_file;
  Duration timeout{std::chrono::seconds(10)};
};
template <class V>
void fields(V& v, CollectorConfig& c) {
  v("url", c.url,
    "address of a dashboard started with `lockstep ui --receive`; default: the environment "
    "variable LOCKSTEP_COLLECTOR_URL");
  v("token_file", c.token_file,
    "file with the token, readable by its owner only; default: the environment variable "
    "LOCKSTEP_COLLECTOR_TOKEN");
  v("ca_file", c.ca_file, "trusted certificates of an https address; default: those of the system");
  v("timeout", c.timeout, "how long to wait for the collector");
}

HttpAddress collector_address(const CollectorConfig& config, const Environment& environment) {
  const auto url =
      config.url ? config.url->text : environment("LOCKSTEP_COLLECTOR_URL").value_or("");
  if (url.empty())
    throw config_error(
        "collector: no url configured; set url or the environment variable "
        "LOCKSTEP_COLLECTOR_URL");
  return parse_http_address(url, config.url ? "collector: url" : "LOCKSTEP_COLLECTOR_URL");
}

std::string read_collector_token(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    throw config_error(fmt::format("collector: token_file {}: there is no such file", path));
  if ((info.st_mode & 077) != 0)
    throw config_error(
        fmt::format("collector: token_file {}: others can read it; chmod 600 {}", path, path));
  return read_file(path, kMaxCollectorTokenBytes);
}

std::string collector_token(const CollectorConfig& config, const Environment& environment) {
  const auto text = config.token_file ? read_collector_token(*config.token_file)
                                      : environment("LOCKSTEP_COLLECTOR_TOKEN").value_or("");
  const std::string token(trimmed(text, " \t\r\n"));
  if (token.empty())
    throw config_error(
        "collector: no token; set the environment variable LOCKSTEP_COLLECTOR_TOKEN, or "
        "token_file");
  return token;
}

HttpOptions collector_options(const CollectorConfig& config, const Environment& environment,
                              const std::string& origin) {
  HttpOptions options;
  options.name = "the collector at " + origin;
  options.timeout = config.timeout.value;
  options.ca_file = config.ca_file.value_or("");
  options.headers = {{"Authorization", "Bearer " + collector_token(config, environment)}};
  return options;
}

CollectorAddress collector_of(const CollectorConfig& config, const Environment& environment) {
  const auto address = collector_address(config, environment);
  return {address, collector_options(config, environment, address.origin())};
}

class CollectorSink final : public Sink {
 public:
  using Config = CollectorConfig;
  CollectorSink(const Config& config, const SinkContext& context)
      : run_dir_(context.run_dir),
        is_first_(context.is_first_entry),
        collector_(collector_of(config, context.environment)),
        sender_(make_sender()) {}

  Json destination() const override {
    return {collector_.address.origin(), collector_.address.path};
  }
  bool has_delivered(const RunInfo&) const override { return sender_->is_sent(); }

  void run_started(const RunInfo& info, const Json&) override {
    own_logs_ = {event_log_path(run_dir_, info.rank), node_log_path(run_dir_, info.node_rank)};
  }
  void scalars(const ScalarRow&) override {}
  void run_finished(const RunEnd&) override { is_over_ = true; }

  // The first entry sends the whole run directory while it grows, and ends the run there. The
  // others, which may be fed on other nodes, send at their end what was written since.
  Json flush() override {
    if (!is_over_) {
      if (is_first_) sender_->send();
      return state();
    }
    sender_ = make_sender();  // asks for what the collector has: it may have lost a part of the run
    if (!is_first_) {
      sender_->send_part(own_logs_);
      return state();
    }
    wait_for_other_agents();
    sender_->send();
    sender_->end();
    return state();
  }

 private:
  Json state() const { return {{"run", run_dir_.filename().string()}}; }

  std::unique_ptr<RunSender> make_sender() const {
    return std::make_unique<RunSender>(run_dir_, collector_);
  }

  // The agents of other nodes with the same file system close their logs at about the same time.
  // Retries do not wait again: the time is counted from the end of the run.
  void wait_for_other_agents() const {
    using FileClock = std::filesystem::file_time_type::clock;
    const auto deadline = std::min(last_change(), FileClock::now()) + kOtherAgentsTimeout;
    const auto logs = node_logs(run_dir_);
    while (std::ranges::any_of(logs, has_writer) && FileClock::now() < deadline)
      ::poll(nullptr, 0, kOtherAgentsPollMs);
  }

  // Of the rank's log and of the files about the outcome.
  std::filesystem::file_time_type last_change() const {
    auto newest = std::filesystem::file_time_type::min();
    const auto add = [&](const std::filesystem::path& file) {
      std::error_code error;
      const auto time = std::filesystem::last_write_time(file, error);
      if (!error) newest = std::max(newest, time);
    };
    for (const auto& name : run_files(run_dir_)) add(run_dir_ / name);
    const auto& log = own_logs_.front();
    add(log);
    for (auto next = next_segment(log, 0); next; next = next_segment(log, next->beginning.number))
      add(segment_path(log, next->beginning.number));
    return newest;
  }

  const std::filesystem::path run_dir_;
  const bool is_first_;
  const CollectorAddress collector_;
  std::unique_ptr<RunSender> sender_;
  std::vector<std::filesystem::path> own_logs_;  // of the rank and of its node
  bool is_over_ = false;
};

REGISTER_SINK("collector", CollectorSink, "the whole run to a dashboard on another machine");

}  // namespace
}  // namespace lockstep::tracking
