#include "tracking/sinks/prometheus/metrics_server.h"

// Must match how the library was compiled.
#ifndef CPPHTTPLIB_OPENSSL_SUPPORT
#define CPPHTTPLIB_OPENSSL_SUPPORT
#endif
#include <fmt/format.h>
#include <httplib.h>

#include <optional>

#include "core/system/mutex.h"
#include "lockstep/error.h"
#include "tracking/http/http_server_thread.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kScrapeThreads = 4;
constexpr time_t kScrapeTimeoutSeconds = 5;
constexpr size_t kScrapeMaxBytes = 4096;  // request body; scrapes have none

}  // namespace

struct MetricsServer::Listener {
  httplib::Server server;
  std::optional<HttpServerThread> serving;
};

std::shared_ptr<MetricsServer> MetricsServer::shared(const MetricsEndpoint& endpoint) {
  static Mutex mutex;
  static std::map<MetricsEndpoint, std::weak_ptr<MetricsServer>> servers;  // guarded by mutex
  const MutexLock lock(mutex);
  auto server = servers[endpoint].lock();
  if (!server) {
    server = std::make_shared<MetricsServer>(endpoint);
    servers[endpoint] = server;
  }
  return server;
}

MetricsServer::MetricsServer(const MetricsEndpoint& endpoint)
    : listener_(std::make_unique<Listener>()) {
  auto& server = listener_->server;
  server.set_socket_options(reuse_address_only);
  server.set_read_timeout(kScrapeTimeoutSeconds);
  server.set_write_timeout(kScrapeTimeoutSeconds);
  server.set_keep_alive_timeout(kScrapeTimeoutSeconds);
  server.set_payload_max_length(kScrapeMaxBytes);
  server.Get("/metrics", [this, token = endpoint.token](const httplib::Request& request,
                                                        httplib::Response& response) {
    if (token.empty() || has_bearer_token(request.get_header_value("Authorization"), token))
      return response.set_content(text(), "text/plain; version=0.0.4; charset=utf-8");
    response.status = 401;
    response.set_header("WWW-Authenticate", "Bearer");
  });

  auto port = endpoint.port;
  const bool is_bound = port == 0 ? (port = server.bind_to_any_port(endpoint.address)) > 0
                                  : server.bind_to_port(endpoint.address, port);
  if (!is_bound)
    throw environment_error(fmt::format(
        "prometheus: cannot listen on {} port {}: in use by another run, or not an address of this "
        "host; `port: 0` selects any free port",
        endpoint.address, endpoint.port));
  const bool is_v6 = endpoint.address.find(':') != std::string::npos;
  url_ = fmt::format("http://{}:{}/metrics",
                     is_v6 ? "[" + endpoint.address + "]" : endpoint.address, port);

  listener_->serving.emplace(server, kScrapeThreads, "prometheus: the server on " + url_);
}

MetricsServer::~MetricsServer() = default;

void MetricsServer::set(const std::string& id, PrometheusEntry entry) {
  const MutexLock lock(mutex_);
  entries_[id] = std::move(entry);
}

void MetricsServer::remove(const std::string& id) {
  const MutexLock lock(mutex_);
  entries_.erase(id);
}

std::string MetricsServer::text() const {
  std::vector<PrometheusEntry> entries;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, entry] : entries_) entries.push_back(entry);
  }
  return prometheus_text(entries);
}

}  // namespace lockstep::tracking
