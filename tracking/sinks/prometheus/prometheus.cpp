// The prometheus sink: serves the last value of every metric to a Prometheus server.
#include <fmt/format.h>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "lockstep/sink.h"
#include "tracking/log/system_metric.h"
#include "tracking/sinks/prometheus/metrics_server.h"

namespace lockstep::tracking {
namespace {

struct PrometheusConfig {
  std::string address = "127.0.0.1";
  int64_t port = 9464;
};
template <class V>
void fields(V& v, PrometheusConfig& c) {
  v("address", c.address,
    "address to listen on; outside of the loopback interface, it requires a token in the "
    "environment variable LOCKSTEP_PROMETHEUS_TOKEN");
  v("port", c.port, "port to listen on; 0: any free port", at_least(0), at_most(65535));
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

MetricsEndpoint metrics_endpoint(const PrometheusConfig& config, const Environment& environment) {
  const auto token = environment("LOCKSTEP_PROMETHEUS_TOKEN").value_or("");
  if (token.empty() && !is_loopback(config.address))
    throw config_error(
        fmt::format("prometheus: {} can be reached from other hosts, which requires a token: set "
                    "LOCKSTEP_PROMETHEUS_TOKEN, or listen on 127.0.0.1",
                    config.address));
  return {.address = config.address, .port = static_cast<int>(config.port), .token = token};
}

class PrometheusSink final : public Sink {
 public:
  using Config = PrometheusConfig;
  PrometheusSink(const Config& config, const SinkContext& context)
      : server_(MetricsServer::shared(metrics_endpoint(config, context.environment))),
        file_(context.dir / "endpoint") {}

  ~PrometheusSink() override {
    server_->remove(id_);
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
  }

  void run_started(const RunInfo& info, const Json&) override {
    write_file_durably(file_, server_->url() + "\n");
    id_ = info.id;
    entry_.labels = {{"run", info.id}, {"rank", std::to_string(info.rank)}};
    entry_.info = {{"name", info.name},
                   {"job_id", info.job_id},
                   {"group", info.group.value_or("")},
                   {"host", info.host},
                   {"world_size", std::to_string(info.world_size)}};
    entry_.time = info.created;
    server_->set(id_, entry_);
  }

  void scalars(const ScalarRow& row) override {
    entry_.time = row.time;
    for (const auto& [name, value] : row.values) {
      entry_.values.insert_or_assign(std::string(name), value);
      if (!is_system_metric(name)) entry_.step = row.step;
    }
  }

  void rewind(int64_t step) override { entry_.step = step; }
  void run_finished(const RunEnd&) override {}

  Json flush() override {
    server_->set(id_, entry_);
    return nullptr;
  }

 private:
  std::shared_ptr<MetricsServer> server_;
  std::filesystem::path file_;  // contains the URL
  std::string id_;
  PrometheusEntry entry_;
};

REGISTER_SINK("prometheus", PrometheusSink, "the last values, for Prometheus to scrape");

}  // namespace
}  // namespace lockstep::tracking
