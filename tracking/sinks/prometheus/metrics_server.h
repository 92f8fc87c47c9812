// The HTTP server that Prometheus scrapes: GET /metrics. The entries of a process that are
// configured alike share one.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/system/mutex.h"
#include "tracking/sinks/prometheus/exposition.h"

namespace lockstep::tracking {

struct MetricsEndpoint {
  std::string address = "127.0.0.1";
  int port = 9464;    // 0: any that is free
  std::string token;  // what a scrape has to bring; empty: nothing

  auto operator<=>(const MetricsEndpoint&) const = default;
};

// Thread: any; it serves on threads of its own.
class MetricsServer {
 public:
  // The one of this endpoint; it lives as long as somebody holds it. Throws Environment when the
  // address cannot be listened on (in use, not of this host).
  static std::shared_ptr<MetricsServer> shared(const MetricsEndpoint& endpoint);

  explicit MetricsServer(const MetricsEndpoint& endpoint);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // "http://127.0.0.1:9464/metrics".
  const std::string& url() const { return url_; }

  // What is served from now on of the entry `id`.
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
