// The dashboard as an HTTP server: the page, the API and its events.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::dashboard {

struct DashboardOptions {
  std::filesystem::path runs;
  std::string host = "127.0.0.1";
  int port = 0;                         // 0: the first free one from 8080 on
  std::string token;                    // empty: none is needed. Required beyond loopback
  std::vector<std::string> host_names;  // by which browsers may call it, besides its addresses
  bool actions = true;                  // false: nothing can be changed
  std::function<std::string()> schema;  // of run files, as JSON text; "" where nobody has it
};

// Thread: belongs to one thread; serves on threads of its own.
class DashboardServer {
 public:
  // Listens and serves until the object ends. Throws Config (no such directory, a host that is none
  // of this machine, beyond loopback without a token) and Environment (no free port, no temporary
  // file).
  explicit DashboardServer(DashboardOptions options);
  // Stops. A thread that still hangs in a connection keeps what it needs and ends by itself.
  ~DashboardServer();
  DashboardServer(const DashboardServer&) = delete;
  DashboardServer& operator=(const DashboardServer&) = delete;

  // Ends all connections; requests at work have half a second.
  void stop();

  // "http://127.0.0.1:8080/", with a ticket that works once where a token is needed.
  const std::string& link() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

// Whether only processes of this machine reach `host`.
bool is_loopback_name(const std::string& host);

}  // namespace lockstep::dashboard
