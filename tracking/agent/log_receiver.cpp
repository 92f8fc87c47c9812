#include "tracking/agent/log_receiver.h"

// Must match the build of the library.
#ifndef CPPHTTPLIB_OPENSSL_SUPPORT
#define CPPHTTPLIB_OPENSSL_SUPPORT
#endif
#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "core/number_text.h"
#include "core/system/crc32c.h"
#include "core/system/durable_file.h"
#include "core/system/full_io.h"
#include "lockstep/error.h"
#include "tracking/http/http_server_thread.h"
#include "tracking/log/event_log_segment.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kMaxReceiverThreads = 64;
constexpr time_t kReceiverTimeoutSeconds = 10;
constexpr size_t kMaxNameDigits = 10;

bool is_digits(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameDigits &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

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

std::string bytes_at_begin(int fd, uint64_t size) {
  auto bytes = read_log_piece(fd, 0, std::min(size, kComparedBytes));
  if (bytes.size() < std::min(size, kComparedBytes))
    throw environment_error("a received log was truncated");
  return bytes;
}

}  // namespace

// rank-00003.lsev, node-00001.lsev, rank-00003.2.lsev
bool is_event_log_name(const std::string& name) {
  std::string_view rest = name;
  if (!rest.starts_with("rank-") && !rest.starts_with("node-")) return false;
  rest.remove_prefix(5);
  if (!rest.ends_with(".lsev")) return false;
  rest.remove_suffix(5);
  const auto dot = rest.find('.');
  return is_digits(rest.substr(0, dot)) &&
         (dot == std::string_view::npos || is_digits(rest.substr(dot + 1)));
}

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

// Readers recognize a growing log by the lock on its first segment.
LogReceiver::Copy& LogReceiver::copy_of(const std::string& name, int node) {
  auto& copy = copies_[name];
  if (copy.file.is_open()) return copy;
  const auto path = run_dir_ / "events" / name;
  FileDescriptor file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
  if (!file.is_open()) throw errno_error(fmt::format("cannot open {}", path.string()));
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    throw errno_error(fmt::format("another process is writing {}", path.string()));
  const auto size = ::lseek(file.get(), 0, SEEK_END);
  if (size < 0) throw errno_error(fmt::format("cannot read {}", path.string()));
  const auto begin = bytes_at_begin(file.get(), static_cast<uint64_t>(size));
  copy = {.file = std::move(file),
          .content = {static_cast<uint64_t>(size), crc32c(begin.data(), begin.size())},
          .node = node};
  return copy;
}

LogReceiver::Response LogReceiver::handle_log(const std::string& name, int node,
                                              const std::string* bytes, uint64_t offset) {
  const MutexLock lock(mutex_);
  if (!is_event_log_name(name) || !mark_seen(node)) return {.status = 404, .body = "{}"};
  try {
    auto& copy = copy_of(name, node);
    auto& [size, begin_crc] = copy.content;
    if (bytes && offset != size) return {.status = 409, .body = to_json(copy.content).dump()};
    if (bytes) {
      if (!write_all_at(copy.file.get(), *bytes, offset))
        throw errno_error("cannot write a received log");
      size += bytes->size();
      if (offset < kComparedBytes) {
        const auto begin = bytes_at_begin(copy.file.get(), size);
        begin_crc = crc32c(begin.data(), begin.size());
      }
    }
    return {.body = to_json(copy.content).dump()};
  } catch (const Error& error) {
    copies_.erase(name);  // reopening determines how much was written
    return {.status = 507, .body = nlohmann::json{{"problem", error.what()}}.dump()};
  }
}

LogReceiver::Response LogReceiver::handle_end(int node) {
  std::vector<FileDescriptor> files;
  {
    const MutexLock lock(mutex_);
    if (!mark_seen(node)) return {.status = 404, .body = "{}"};
    files = release_copies(node);
  }
  for (const auto& file : files) ::fdatasync(file.get());
  files.clear();
  const MutexLock lock(mutex_);
  nodes_[node].ended = true;
  return {.body = "{}"};
}

// Closing the descriptors releases the locks.
std::vector<FileDescriptor> LogReceiver::release_copies(int node) {
  std::vector<FileDescriptor> files;
  for (auto it = copies_.begin(); it != copies_.end();) {
    const bool matches = it->second.node == node;
    if (matches) files.push_back(std::move(it->second.file));
    it = matches ? copies_.erase(it) : std::next(it);
  }
  return files;
}

bool LogReceiver::is_over() {
  const MutexLock lock(mutex_);
  bool all = true;
  for (auto& [number, node] : nodes_) {
    if (node.ended) continue;
    if (Clock::now() - node.last_seen > node_timeout_)
      release_copies(number);
    else
      all = false;
  }
  return all;
}

}  // namespace lockstep::tracking
