#include "dashboard/server/bounded_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace lockstep::dashboard {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kMaxRequests = 1000;  // per connection
constexpr size_t kMaxPending = 256;
constexpr int kListenBacklog = 512;
// For one wait until the client reads more of a response, and for the sum of these waits. The sum
// is extended by the time that the sent bytes take at the minimum rate.
constexpr milliseconds kWriteTimeout{5000}, kTotalWriteTimeout{10000};
constexpr size_t kMinBytesPerMs = 32;

// Reads from a complete request in memory and writes the response to a socket. Reading never
// blocks.
class ResponseStream : public httplib::Stream {
 public:
  ResponseStream(int socket, std::string_view request) : socket_(socket), request_(request) {}

  bool is_consumed() const { return request_.empty(); }
  bool is_readable() const override { return !request_.empty(); }

  // Also false if the client closed the connection or its sending side.
  bool is_writable() const override {
    pollfd polled{.fd = socket_, .events = POLLOUT | POLLRDHUP, .revents = 0};
    return ::poll(&polled, 1, 0) > 0 && polled.revents == POLLOUT;
  }

  ssize_t read(char* bytes, size_t size) override {
    const auto count = request_.copy(bytes, size);
    request_.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* bytes, size_t size) override {
    size_t done = 0;
    while (done < size) {
      const auto count = ::send(socket_, bytes + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count >= 0) {
        done += static_cast<size_t>(count);
        sent_ += static_cast<size_t>(count);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!wait_until_writable()) return -1;
      } else if (errno != EINTR) {
        return -1;
      }
    }
    return static_cast<ssize_t>(size);
  }

  // The dashboard does not use addresses.
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  socket_t socket() const override { return socket_; }

 private:
  bool wait_until_writable() {
    const auto extension = milliseconds(sent_ / kMinBytesPerMs);
    const auto timeout = std::min(kWriteTimeout, kTotalWriteTimeout + extension - waited_);
    if (timeout <= milliseconds(0)) return false;
    pollfd polled{.fd = socket_, .events = POLLOUT, .revents = 0};
    const auto begin = Clock::now();
    const auto num_events = ::poll(&polled, 1, static_cast<int>(timeout.count()));
    waited_ += std::chrono::ceil<milliseconds>(Clock::now() - begin);
    return num_events > 0 && (polled.revents & (POLLERR | POLLHUP)) == 0;
  }

  int socket_;
  std::string_view request_;
  size_t sent_ = 0;
  milliseconds waited_{0};
};

}  // namespace

// Runs tasks in the calling thread: the library's tasks only hand over a connection.
class BoundedServer::InlineTaskQueue : public httplib::TaskQueue {
 public:
  explicit InlineTaskQueue(BoundedServer& server) : server_(server) {}
  void enqueue(std::function<void()> task) override { task(); }
  void shutdown() override { server_.shut_down(); }

 private:
  BoundedServer& server_;
};

BoundedServer::BoundedServer(ConnectionLimits limits, size_t num_workers)
    : num_workers_(num_workers),
      connections_(limits, [this](ReceivedRequest request) { enqueue(std::move(request)); }) {}

BoundedServer::~BoundedServer() = default;

httplib::TaskQueue* BoundedServer::make_task_queue() {
  // The library's backlog is 5; a client beyond it would retry only after a second.
  ::listen(svr_sock_, kListenBacklog);
  workers_ = std::make_unique<httplib::ThreadPool>(num_workers_);
  return new InlineTaskQueue(*this);
}

void BoundedServer::shut_down() {
  connections_.stop();
  workers_->shutdown();
}

bool BoundedServer::process_and_close_socket(socket_t socket) {
  connections_.add(FileDescriptor(socket));
  return true;
}

void BoundedServer::enqueue(ReceivedRequest request) {
  if (num_pending_ >= kMaxPending) return;  // closes the connection
  ++num_pending_;
  workers_->enqueue([this, shared = std::make_shared<ReceivedRequest>(std::move(request))] {
    handle(std::move(*shared));
    --num_pending_;
  });
}

void BoundedServer::handle(ReceivedRequest request) {
  const bool is_last = request.is_last || request.num_served + 1 >= kMaxRequests;
  ResponseStream stream(request.socket.get(), request.bytes);
  bool closes = false;
  if (!process_request(stream, is_last, closes, nullptr)) return;
  if (is_last || closes || !stream.is_consumed())
    connections_.close_gracefully(std::move(request.socket));
  else
    connections_.add(std::move(request.socket), std::move(request.rest), request.num_served + 1);
}

}  // namespace lockstep::dashboard
