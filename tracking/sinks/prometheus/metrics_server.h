// The HTTP server that Prometheus scrapes: GET /metrics. Entries of a process with the same
// endpoint share a server.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/system/mutex.h"
#include "tracking/sinks/prometheus/exposition.h"

namespace lockstep::tracking {

struct MetricsEndpoint {
  std::string address = "127.0.0.1";
  int port = 9464;    // 0: any free port
  std::string token;  // required bearer token; empty: none

  auto operator<=>(const MetricsEndpoint&) const = default;
};

// Thread-safe. Requests are served on the server's threads.
class MetricsServer {
 public:
  // Returns the server of this endpoint, created on first use and destroyed with its last
  // reference. Throws Environment if it cannot listen on the address (in use, not of this host).
  static std::shared_ptr<MetricsServer> shared(const MetricsEndpoint& endpoint);

  explicit MetricsServer(const MetricsEndpoint& endpoint);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // "http://127.0.0.1:9464/metrics".
  const std::string& url() const { return url_; }

  // Replaces the published values of the entry `id`.
  void set(const std::string& id, PrometheusEntry entry);
  void remove(const std::string& id);

 private:
  struct Listener;

  std::string text() const;

  mutable Mutex mutex_;
  std::map<std::string, PrometheusEntry> entries_ GUARDED_BY(mutex_);
  std::string url_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace lockstep::tracking
