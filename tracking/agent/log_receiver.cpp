#include "tracking/agent/log_receiver.h"

// Must match the build of the library.
#ifndef CPPHTTPLIB_OPENSSL_SUPPORT
#define CPPHTTPLIB_OPENSSL_SUPPORT
#endif
#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "core/number_text.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tracking/http/http_server_thread.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kMaxReceiverThreads = 64;
constexpr time_t kReceiverTimeoutSeconds = 10;

bool has_forwarding_token(const httplib::Request& request, const std::string& token) {
  return has_bearer_token(request.get_header_value("Authorization"), token);
}

// Checked before the body is read, so that unauthenticated requests use no memory.
bool is_acceptable(const httplib::Request& request, const std::string& token) {
  if (!has_forwarding_token(request, token)) return false;
  if (request.has_header("Transfer-Encoding") || request.has_header("Content-Encoding"))
    return false;
  if (request.method != "POST") return true;
  const auto length = parse_number<uint64_t>(request.get_header_value("Content-Length"));
  return length && *length <= kMaxForwardedBytes;
}

}  // namespace

// The library's server on an existing listening socket.
struct LogReceiver::Server : httplib::Server {
  void listen_on(int fd, size_t num_nodes) {
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);  // the library blocks in accept()
    svr_sock_ = ::dup(fd);
    if (::listen(fd, SOMAXCONN) != 0)  // again, in case an earlier receiver stopped
      throw errno_error("cannot listen for the logs of other nodes");
    serving.emplace(*this, std::min(num_nodes, kMaxReceiverThreads) + 2,
                    "the server for the logs of other nodes");
  }
  std::optional<HttpServerThread> serving;
};

LogReceiver::LogReceiver(std::filesystem::path run_dir, const Forwarding& forwarding,
                         std::chrono::milliseconds node_timeout)
    : run_dir_(std::move(run_dir)),
      node_timeout_(node_timeout),
      copies_(run_dir_ / "events"),
      server_(std::make_unique<Server>()) {
  make_directories(run_dir_ / "events");
  for (const int node : forwarding.from_nodes) nodes_[node].last_seen = Clock::now();
  server_->set_read_timeout(kReceiverTimeoutSeconds);
  server_->set_write_timeout(kReceiverTimeoutSeconds);
  server_->set_keep_alive_timeout(1);    // shutdown waits for it
  server_->set_keep_alive_max_count(1);  // a connection occupies a thread
  server_->set_payload_max_length(kMaxForwardedBytes);
  server_->set_pre_routing_handler(
      [token = forwarding.token](const httplib::Request& request, httplib::Response& response) {
        if (is_acceptable(request, token)) return httplib::Server::HandlerResponse::Unhandled;
        response.status = has_forwarding_token(request, token) ? 413 : 401;
        response.set_header("Connection", "close");
        response.set_content("{}", "application/json");
        return httplib::Server::HandlerResponse::Handled;
      });
  const auto json_handler = [](const auto& handle) {
    return [handle](const httplib::Request& request, httplib::Response& response) {
      const auto node = parse_number<int>(request.get_header_value("Lockstep-Node"));
      const auto result = node ? handle(request, *node) : Response{.status = 400, .body = "{}"};
      response.status = result.status;
      response.set_content(result.body, "application/json");
    };
  };
  server_->Get(R"(/logs/([^/]+))", json_handler([this](const httplib::Request& request, int node) {
                 return handle_log(request.matches[1], node, nullptr, 0);
               }));
  server_->Post(R"(/logs/([^/]+))", json_handler([this](const httplib::Request& request, int node) {
                  const auto offset = parse_number<uint64_t>(request.get_param_value("offset"));
                  return offset ? handle_log(request.matches[1], node, &request.body, *offset)
                                : Response{.status = 400, .body = "{}"};
                }));
  server_->Post(
      "/end", json_handler([this](const httplib::Request&, int node) { return handle_end(node); }));
  server_->listen_on(forwarding.listener->get(), forwarding.from_nodes.size());
}

LogReceiver::~LogReceiver() = default;

bool LogReceiver::mark_seen(int node) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return false;
  found->second = {.last_seen = Clock::now(), .ended = false};
  return true;
}

LogReceiver::Response LogReceiver::handle_log(const std::string& name, int node,
                                              const std::string* bytes, uint64_t offset) {
  const MutexLock lock(mutex_);
  if (!is_event_log_name(name) || !mark_seen(node)) return {.status = 404, .body = "{}"};
  try {
    const bool fits = !bytes || copies_.append(name, node, *bytes, offset);
    return {.status = fits ? 200 : 409, .body = to_json(copies_.open(name, node)).dump()};
  } catch (const Error& error) {
    return {.status = 507, .body = nlohmann::json{{"problem", error.what()}}.dump()};
  }
}

LogReceiver::Response LogReceiver::handle_end(int node) {
  std::vector<FileDescriptor> files;
  {
    const MutexLock lock(mutex_);
    if (!mark_seen(node)) return {.status = 404, .body = "{}"};
    files = copies_.release(node);
  }
  for (const auto& file : files) ::fdatasync(file.get());
  files.clear();
  const MutexLock lock(mutex_);
  nodes_[node].ended = true;
  return {.body = "{}"};
}

bool LogReceiver::is_over() {
  const MutexLock lock(mutex_);
  bool all = true;
  for (auto& [number, node] : nodes_) {
    if (node.ended) continue;
    if (Clock::now() - node.last_seen > node_timeout_)
      copies_.release(number);
    else
      all = false;
  }
  return all;
}

}  // namespace lockstep::tracking
