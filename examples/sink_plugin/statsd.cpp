// A sink as a plugin: sends metrics as gauges to a StatsD server, one UDP packet each.
//   tracking: {plugins: [statsd.so], sinks: [console, {name: statsd, port: 8125}]}
// UDP may lose packets silently. A reliable sink would wait for responses in flush().
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include <lockstep/error.h>
#include <lockstep/sink.h>

namespace {

struct StatsdConfig {
  std::string host = "127.0.0.1";
  int64_t port = 8125;
};
template <class V>
void fields(V& v, StatsdConfig& c) {
  v("host", c.host, "numeric address of the server");
  v("port", c.port, "UDP port of the server", lockstep::at_least(1), lockstep::at_most(65535));
}

class StatsdSink final : public lockstep::Sink {
 public:
  using Config = StatsdConfig;
  StatsdSink(const Config& config, const lockstep::SinkContext&) {
    server_.sin_family = AF_INET;
    server_.sin_port = htons(static_cast<uint16_t>(config.port));
    if (::inet_pton(AF_INET, config.host.c_str(), &server_.sin_addr) != 1)
      throw lockstep::config_error("statsd: host '" + config.host + "' is not a numeric address");
    socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_ < 0) throw lockstep::errno_error("statsd: socket");
  }
  ~StatsdSink() override { ::close(socket_); }

  void run_started(const lockstep::RunInfo& info, const lockstep::Json&) override {
    prefix_ = "lockstep." + info.id + ".";
  }

  void scalars(const lockstep::ScalarRow& row) override {
    for (const auto& metric : row.values)
      send(prefix_ + std::string(metric.name) + ":" + std::to_string(metric.value) + "|g");
  }

  void run_finished(const lockstep::RunEnd& end) override {
    send(prefix_ + "exit:" + std::to_string(end.exit_code) + "|g");
  }

 private:
  void send(const std::string& packet) {
    static_cast<void>(::sendto(socket_, packet.data(), packet.size(), MSG_DONTWAIT,
                               reinterpret_cast<const sockaddr*>(&server_), sizeof(server_)));
  }

  sockaddr_in server_{};
  int socket_ = -1;
  std::string prefix_;
};

REGISTER_SINK("statsd", StatsdSink, "sends gauges to a StatsD server over UDP");

}  // namespace
