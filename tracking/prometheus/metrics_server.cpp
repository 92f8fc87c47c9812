#include "tracking/prometheus/metrics_server.h"

// As the library was compiled.
#ifndef CPPHTTPLIB_OPENSSL_SUPPORT
#define CPPHTTPLIB_OPENSSL_SUPPORT
#endif
#include <fmt/format.h>
#include <httplib.h>
#include <openssl/crypto.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <thread>

#include "core/error.h"

namespace lockstep {
namespace {

constexpr size_t kScrapeThreads = 4;
constexpr time_t kScrapeTimeoutSeconds = 5;
constexpr auto kScrapeStart = std::chrono::seconds(10);
constexpr size_t kScrapeMostBytes = 4096;  // of a request's body, which has none

// The library's own choice, SO_REUSEPORT, would let two processes have the same port by halves.
void reuse_address_only(int socket) {
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

bool is_scrape_allowed(const httplib::Request& request, const std::string& token) {
  if (token.empty()) return true;
  const auto given = request.get_header_value("Authorization");
  const auto wanted = "Bearer " + token;
  return given.size() == wanted.size() &&
         CRYPTO_memcmp(given.data(), wanted.data(), given.size()) == 0;
}

}  // namespace

struct MetricsServer::Listener {
  httplib::Server server;
  std::thread thread;
};

std::shared_ptr<MetricsServer> MetricsServer::shared(const MetricsEndpoint& endpoint) {
  static std::mutex mutex;
  static std::map<MetricsEndpoint, std::weak_ptr<MetricsServer>> servers;  // guarded by mutex
  const std::lock_guard lock(mutex);
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
  server.set_payload_max_length(kScrapeMostBytes);
  server.Get("/metrics", [this, token = endpoint.token](const httplib::Request& request,
                                                        httplib::Response& response) {
    if (is_scrape_allowed(request, token))
      return response.set_content(text(), "text/plain; version=0.0.4; charset=utf-8");
    response.status = 401;
    response.set_header("WWW-Authenticate", "Bearer");
  });

  auto port = endpoint.port;
  const bool is_bound = port == 0 ? (port = server.bind_to_any_port(endpoint.address)) > 0
                                  : server.bind_to_port(endpoint.address, port);
  if (!is_bound)
    throw environment_error(fmt::format(
        "prometheus: cannot listen on {} port {}: in use by another run, or no address of this "
        "host; `port: 0` takes any that is free",
        endpoint.address, endpoint.port));
  const bool is_v6 = endpoint.address.find(':') != std::string::npos;
  url_ = fmt::format("http://{}:{}/metrics",
                     is_v6 ? "[" + endpoint.address + "]" : endpoint.address, port);

  // Its stop() is heard once it made its queue of tasks.
  std::promise<void> listens;
  auto heard = listens.get_future();
  server.new_task_queue = [&listens] {
    auto* tasks = new httplib::ThreadPool(kScrapeThreads);
    listens.set_value();
    return tasks;
  };
  listener_->thread = std::thread([&server] { server.listen_after_bind(); });
  if (heard.wait_for(kScrapeStart) == std::future_status::ready) return;
  server.stop();
  listener_->thread.join();
  throw environment_error(fmt::format("prometheus: no server starts on {}", url_));
}

MetricsServer::~MetricsServer() {
  listener_->server.stop();
  listener_->thread.join();
}

void MetricsServer::set(const std::string& id, PrometheusEntry entry) {
  const std::lock_guard lock(mutex_);
  entries_[id] = std::move(entry);
}

void MetricsServer::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  entries_.erase(id);
}

std::string MetricsServer::text() const {
  std::vector<PrometheusEntry> entries;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : entries_) entries.push_back(entry);
  }
  return prometheus_text(entries);
}

}  // namespace lockstep
