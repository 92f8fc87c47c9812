// The HTTP server of the dashboard: the front end, the JSON API and the event stream.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tracking/copies/run_receiver.h"

namespace lockstep::dashboard {

struct DashboardOptions {
  std::filesystem::path runs;
  std::string host = "127.0.0.1";
  int port = 0;                         // 0: the first free port from 8080
  std::string token;                    // with all rights; empty: there is none
  std::filesystem::path tokens_file;    // further tokens, with roles; empty: there is none. One of
                                        // the two is required beyond loopback
  std::vector<std::string> host_names;  // accepted in Host, in addition to addresses
  bool actions = true;                  // false: read-only
  bool receives = false;                // accepts runs of other machines; requires a token
  tracking::ReceiveLimits receive_limits;
  std::function<void(const std::string&)> warn;  // of a problem while it serves; any thread
  std::function<std::string()> schema;           // of run files, as JSON text; "" if unavailable
};

// Thread: confined to one thread; serves requests on its own threads.
class DashboardServer {
 public:
  // Listens and serves until destruction or stop(). Throws Config (no such directory, a host beyond
  // loopback or receiving without a token) and Environment (the host is not an address of this machine, no free
  // port, no temporary file).
  explicit DashboardServer(DashboardOptions options);
  // Calls stop(). A thread that is still blocked in a connection keeps the state alive until it
  // exits.
  ~DashboardServer();
  DashboardServer(const DashboardServer&) = delete;
  DashboardServer& operator=(const DashboardServer&) = delete;

  // Closes all connections; waits up to 500 ms for requests in progress.
  void stop();

  // "http://127.0.0.1:8080/", with a one-time ticket if a token is required.
  const std::string& link() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

// Whether `host` can be reached only from this machine.
bool is_loopback_name(const std::string& host);

}  // namespace lockstep::dashboard
