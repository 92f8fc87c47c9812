// The collector sink: sends the files of the run to a dashboard that receives runs, `lockstep ui
// --receive`. Records are not converted: event logs are copied (tracking/copies/collector_sender.h).
#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <memory>

#include "core/config/period.h"
#include "core/http/http_proxies.h"
#include "core/system/durable_file.h"
#include "core/trimmed.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"
#include "lockstep/sink.h"
#include "tracking/copies/collector_sender.h"
#include "tracking/copies/run_copy_sink.h"
#include "tracking/http/public_url.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kMaxCollectorTokenBytes = 4096;

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
                              const HttpAddress& address) {
  HttpOptions options;
  options.name = "the collector at " + address.origin();
  options.timeout = config.timeout.value;
  options.ca_file = config.ca_file.value_or("");
  options.proxy = proxy_for(environment, address);
  options.headers = {{"Authorization", "Bearer " + collector_token(config, environment)}};
  return options;
}

CollectorAddress collector_of(const CollectorConfig& config, const Environment& environment) {
  const auto address = collector_address(config, environment);
  return {address, collector_options(config, environment, address)};
}

class CollectorSink final : public RunCopySink {
 public:
  using Config = CollectorConfig;
  CollectorSink(const Config& config, const SinkContext& context)
      : RunCopySink(context, std::chrono::milliseconds(0)),
        collector_(collector_of(config, context.environment)) {}

  Json destination() const override {
    return {collector_.address.origin(), collector_.address.path};
  }

 private:
  std::unique_ptr<RunSender> make_sender() const override {
    return std::make_unique<CollectorSender>(run_dir(), collector_);
  }

  const CollectorAddress collector_;
};

REGISTER_SINK("collector", CollectorSink, "the whole run to a dashboard on another machine");

}  // namespace
}  // namespace lockstep::tracking
