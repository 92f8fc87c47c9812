#include "dashboard/server/bounded_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace lockstep::dashboard {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kMaxRequests = 1000;  // on one connection
constexpr size_t kMaxTaken = 256;
constexpr int kMaxWaiting = 512;
// How long an answer may stand still, and all of its waiting in sum: this, and more for each byte.
constexpr milliseconds kStandstill{5000}, kWaiting{10000};
constexpr size_t kMinBytesPerMs = 32;

// A request that is all there, and a socket for the answer. The library never waits for the client
// to say something.
class AnswerStream : public httplib::Stream {
 public:
  AnswerStream(int socket, std::string_view request) : socket_(socket), request_(request) {}

  bool is_used_up() const { return request_.empty(); }
  bool is_readable() const override { return !request_.empty(); }

  // False also when the client hung up, or will say nothing more.
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
        if (!wait_for_room()) return -1;
      } else if (errno != EINTR) {
        return -1;
      }
    }
    return static_cast<ssize_t>(size);
  }

  // Nobody asks for them.
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
  bool wait_for_room() {
    const auto earned = milliseconds(sent_ / kMinBytesPerMs);
    const auto most = std::min(kStandstill, kWaiting + earned - waited_);
    if (most <= milliseconds(0)) return false;
    pollfd polled{.fd = socket_, .events = POLLOUT, .revents = 0};
    const auto begin = Clock::now();
    const auto num_events = ::poll(&polled, 1, static_cast<int>(most.count()));
    waited_ += std::chrono::ceil<milliseconds>(Clock::now() - begin);
    return num_events > 0 && (polled.revents & (POLLERR | POLLHUP)) == 0;
  }

  int socket_;
  std::string_view request_;
  size_t sent_ = 0;
  milliseconds waited_{0};
};

}  // namespace

// What the library wants done is only to hand a connection over.
class BoundedServer::Tasks : public httplib::TaskQueue {
 public:
  explicit Tasks(BoundedServer& server) : server_(server) {}
  void enqueue(std::function<void()> task) override { task(); }
  void shutdown() override { server_.end(); }

 private:
  BoundedServer& server_;
};

BoundedServer::BoundedServer(ReceptionLimits limits, size_t num_workers)
    : num_workers_(num_workers),
      reception_(limits, [this](HttpArrival arrival) { take(std::move(arrival)); }) {}

BoundedServer::~BoundedServer() = default;

httplib::TaskQueue* BoundedServer::new_tasks() {
  // The library lets five wait to be accepted; the sixth would try again after a second.
  ::listen(svr_sock_, kMaxWaiting);
  workers_ = std::make_unique<httplib::ThreadPool>(num_workers_);
  return new Tasks(*this);
}

void BoundedServer::end() {
  reception_.stop();
  workers_->shutdown();
}

bool BoundedServer::process_and_close_socket(socket_t socket) {
  reception_.add(FileDescriptor(socket));
  return true;
}

void BoundedServer::take(HttpArrival arrival) {
  if (num_taken_ >= kMaxTaken) return;  // the connection ends
  ++num_taken_;
  workers_->enqueue([this, kept = std::make_shared<HttpArrival>(std::move(arrival))] {
    serve(std::move(*kept));
    --num_taken_;
  });
}

void BoundedServer::serve(HttpArrival arrival) {
  const bool is_last = arrival.is_last || arrival.num_served + 1 >= kMaxRequests;
  AnswerStream stream(arrival.socket.get(), arrival.request);
  bool closes = false;
  if (!process_request(stream, is_last, closes, nullptr)) return;
  if (is_last || closes || !stream.is_used_up())
    reception_.dismiss(std::move(arrival.socket));
  else
    reception_.add(std::move(arrival.socket), std::move(arrival.rest), arrival.num_served + 1);
}

}  // namespace lockstep::dashboard
