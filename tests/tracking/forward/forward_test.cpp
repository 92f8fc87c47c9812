#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "core/http/http_client.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tests/temporary_directory.h"
#include "tests/tracking/sample_log.h"
#include "tracking/agent/log_forwarder.h"
#include "tracking/agent/log_receiver.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/run_directory.h"

using namespace lockstep;
using namespace lockstep::tracking;
using namespace std::chrono_literals;

namespace {

constexpr auto kSoon = 60s;

// Two nodes: `there` receives the logs that node 0 has `here`.
struct TwoNodes {
  TwoNodes() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* bytes = reinterpret_cast<sockaddr*>(&address);
    // Binds again by number: the kernel frees a port that it chose when the first receiver stops.
    FileDescriptor socket;
    for (int i = 0; i < 2; ++i) {
      socket = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const int yes = 1;
      ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
      REQUIRE(::bind(socket.get(), bytes, size) == 0);
      REQUIRE(::getsockname(socket.get(), bytes, &size) == 0);
    }
    REQUIRE(::listen(socket.get(), 8) == 0);
    to = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    receiving = {.listener = std::make_shared<const FileDescriptor>(std::move(socket)),
                 .from_nodes = {0},
                 .num_logs = 1,
                 .token = "a token of the tests"};
    sending = {.to = to, .token = receiving.token};
    std::filesystem::create_directories(here / "events");
  }

  HttpClient client(const std::string& token, const std::string& node = "0") const {
    HttpOptions options;
    options.name = "the receiver";
    options.headers = {{"Authorization", "Bearer " + token}, {"Lockstep-Node", node}};
    return HttpClient(parse_http_address(to, "to"), options);
  }

  TemporaryDirectory dir;
  std::filesystem::path here = dir / "here", there = dir / "there";
  std::string to;
  Forwarding receiving, sending;
};

template <class Condition>
bool becomes_true(const Condition& condition) {
  const auto latest = std::chrono::steady_clock::now() + kSoon;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > latest) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

void write_log_of_node(const std::filesystem::path& run_dir, int rank, int node) {
  EventLogWriter log(event_log_path(run_dir, rank));
  auto info = sample_info("job", rank, 4);
  info.node_rank = node;
  log.identity(info);
  log_loss(log, 1, 1);
}

bool accepts(HttpClient& client, const std::string& path, const std::string& body) {
  try {
    return client.post(path, body).ok();
  } catch (const Error&) {
    return false;
  }
}

size_t rows_in(const std::filesystem::path& log) {
  return std::filesystem::exists(log) ? read_event_log(log).rows.size() : 0;
}

}  // namespace

TEST_CASE("forwarding: an identical log arrives while it is written", "[tracking]") {
  TwoNodes nodes;
  LogReceiver receiver(nodes.there, nodes.receiving);
  LogForwarder forwarder(nodes.here, 0, nodes.sending);
  const auto copy = event_log_path(nodes.there, 2);
  {
    EventLogWriter log(event_log_path(nodes.here, 2), 2000);  // segments follow
    log.identity(sample_info("job", 2, 4));
    for (int step = 1; step <= 50; ++step) log_loss(log, step, 1.0 / step);
    CHECK(becomes_true([&] { return rows_in(copy) == 50; }));
    CHECK(has_writer(copy));
    for (int step = 51; step <= 100; ++step) log_loss(log, step, 1.0 / step);
    log.end({.state = RunState::Finished});
  }
  CHECK_FALSE(receiver.is_over());
  forwarder.finish();
  CHECK(becomes_true([&] { return forwarder.status().complete; }));
  CHECK(receiver.is_over());
  CHECK_FALSE(has_writer(copy));
  for (const auto& file : std::filesystem::directory_iterator(nodes.here / "events"))
    CHECK(read_file(file.path()) == read_file(nodes.there / "events" / file.path().filename()));
  CHECK(rows_in(copy) == 100);
  CHECK(std::filesystem::exists(segment_path(copy, 1)));
}

TEST_CASE("forwarding: a restart of either side duplicates nothing", "[tracking]") {
  TwoNodes nodes;
  const auto log_path = event_log_path(nodes.here, 2), copy = event_log_path(nodes.there, 2);
  EventLogWriter log(log_path);
  log.identity(sample_info("job", 2, 4));
  auto receiver = std::make_unique<LogReceiver>(nodes.there, nodes.receiving);
  auto forwarder = std::make_unique<LogForwarder>(nodes.here, 0, nodes.sending);
  int64_t step = 0;
  const auto log_some = [&] {
    for (int i = 0; i < 20; ++i) log_loss(log, ++step, 1);
  };
  log_some();
  CHECK(becomes_true([&] { return rows_in(copy) == 20; }));
  receiver.reset();
  CHECK_FALSE(has_writer(copy));
  log_some();
  CHECK(becomes_true([&] { return !forwarder->status().problem.empty(); }));
  // Killed in the middle of a record.
  std::filesystem::resize_file(copy, std::filesystem::file_size(copy) - 7);
  receiver = std::make_unique<LogReceiver>(nodes.there, nodes.receiving);
  const bool is_back = becomes_true([&] { return rows_in(copy) == 40; });
  CAPTURE(forwarder->status().problem);
  CHECK(is_back);
  forwarder.reset();
  log_some();
  forwarder = std::make_unique<LogForwarder>(nodes.here, 0, nodes.sending);
  log.close();
  forwarder->finish();
  CHECK(becomes_true([&] { return forwarder->status().complete; }));
  CHECK(read_file(log_path) == read_file(copy));
}

TEST_CASE("forwarding: an incomplete record is not sent", "[tracking]") {
  TwoNodes nodes;
  const auto path = event_log_path(nodes.here, 2);
  write_sample_log(path);
  const auto bytes = read_file(path);
  std::filesystem::resize_file(path, bytes.size() - 3);
  const auto good = read_event_log(path).good_bytes;
  LogReceiver receiver(nodes.there, nodes.receiving);
  LogForwarder forwarder(nodes.here, 0, nodes.sending);
  forwarder.finish();
  CHECK(becomes_true([&] { return forwarder.status().complete; }));
  CHECK(read_file(event_log_path(nodes.there, 2)) == bytes.substr(0, good));
}

TEST_CASE("forwarding: a log of another run with the same name is not changed", "[tracking]") {
  TwoNodes nodes;
  std::filesystem::create_directories(nodes.there / "events");
  write_sample_log(event_log_path(nodes.there, 2));
  const auto before = read_file(event_log_path(nodes.there, 2));
  {
    EventLogWriter log(event_log_path(nodes.here, 2));
    log.identity(sample_info("another", 2, 4));
    for (int step = 1; step <= 500; ++step) log_loss(log, step, 1);
  }
  write_sample_log(event_log_path(nodes.here, 3));
  LogReceiver receiver(nodes.there, nodes.receiving);
  LogForwarder forwarder(nodes.here, 0, nodes.sending);
  CHECK(becomes_true([&] { return rows_in(event_log_path(nodes.there, 3)) > 0; }));
  CHECK(becomes_true([&] { return !forwarder.status().problem.empty(); }));
  CHECK(forwarder.status().problem.find("a different log named rank-00002.lsev") !=
        std::string::npos);
  CHECK(read_file(event_log_path(nodes.there, 2)) == before);
}

TEST_CASE("forwarding: logs of other nodes' ranks are not sent", "[tracking]") {
  TwoNodes nodes;
  write_log_of_node(nodes.here, 0, 1);
  write_log_of_node(nodes.here, 2, 0);
  LogReceiver receiver(nodes.there, nodes.receiving);
  LogForwarder forwarder(nodes.here, 0, nodes.sending);
  forwarder.finish();
  CHECK(becomes_true([&] { return forwarder.status().complete; }));
  CHECK(std::filesystem::exists(event_log_path(nodes.there, 2)));
  CHECK_FALSE(std::filesystem::exists(event_log_path(nodes.there, 0)));
}

TEST_CASE("forwarding: does not wait for a node that timed out", "[tracking]") {
  TwoNodes nodes;
  LogReceiver receiver(nodes.there, nodes.receiving, 100ms);
  auto client = nodes.client(nodes.receiving.token);
  CHECK(client.get("/logs/rank-00002.lsev").ok());
  CHECK(has_writer(event_log_path(nodes.there, 2)));
  CHECK(becomes_true([&] { return receiver.is_over(); }));
  CHECK_FALSE(has_writer(event_log_path(nodes.there, 2)));
}

TEST_CASE("forwarding: rejects anything that is not a log of this job", "[tracking]") {
  TwoNodes nodes;
  LogReceiver receiver(nodes.there, nodes.receiving);
  const auto& token = nodes.receiving.token;
  const std::string log = "/logs/rank-00002.lsev";
  CHECK(nodes.client("another").get(log).status == 401);
  CHECK(nodes.client("").post("/end", "").status == 401);
  CHECK(nodes.client(token, "2").get(log).status == 404);
  CHECK(nodes.client(token, "one").get(log).status == 400);
  auto client = nodes.client(token);
  for (const auto* name : {"rank-2.txt", "..%2frun.json", "%2e%2e%2fx.lsev", "rank-.lsev", "x",
                           "rank-00002..lsev", "rank-00002.1.2.lsev", "rank-00002.lsev%00"})
    CHECK_FALSE(client.get(std::string("/logs/") + name).ok());
  CHECK(client.post(log, "bytes").status == 400);
  CHECK(client.post(log + "?offset=5", "bytes").status == 409);
  CHECK(client.post(log + "?offset=-1", "bytes").status == 400);
  CHECK(client.post(log + "?offset=0", "bytes").ok());
  CHECK(client.post(log + "?offset=0", "bytes").status == 409);
  // Rejected before the body is read, so the client may only see a closed connection.
  CHECK_FALSE(accepts(client, log + "?offset=5", std::string(kMaxForwardedBytes + 1, 'x')));
  CHECK(std::distance(std::filesystem::recursive_directory_iterator(nodes.there), {}) == 2);

  nodes.sending.token = "another";
  LogForwarder unauthorized(nodes.here, 0, nodes.sending);
  write_sample_log(event_log_path(nodes.here, 3));
  CHECK(becomes_true([&] { return unauthorized.status().gave_up; }));
  CHECK(unauthorized.status().problem.find("token") != std::string::npos);
}
