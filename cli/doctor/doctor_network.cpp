#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <optional>
#include <thread>

#include "cli/doctor/doctor_findings.h"
#include "core/printable.h"
#include "core/system/file_descriptor.h"
#include "core/system/local_address.h"
#include "core/system/socket_address.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kNamePatience{5};
constexpr std::chrono::milliseconds kSlowAnswer{500};

struct NameAnswer {
  std::optional<std::string> address;
  bool only_loopback = false;
  std::chrono::milliseconds reverse{0};  // how long the way back took
};

// Asks for the name of an address, whatever the answer.
void ask_back(const std::string& address) {
  const auto found = resolve(address, 0).front();
  std::array<char, NI_MAXHOST> name{};
  ::getnameinfo(found.get(), found.size, name.data(), name.size(), nullptr, 0, 0);
}

NameAnswer resolve_name(const std::string& name) {
  NameAnswer answer{.address = numeric_address_of(name),
                    .only_loopback = is_name_for_loopback(name)};
  if (!answer.address) return answer;
  const auto begin = std::chrono::steady_clock::now();
  ask_back(*answer.address);
  answer.reverse = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  return answer;
}

// In a thread that is left to itself when the name service hangs.
std::optional<NameAnswer> ask_in_time(const std::string& name) {
  std::promise<NameAnswer> promise;
  auto answer = promise.get_future();
  std::thread([name, promise = std::move(promise)]() mutable {
    promise.set_value(resolve_name(name));
  }).detach();
  if (answer.wait_for(kNamePatience) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

}  // namespace

Finding look_at_host_name() {
  const auto name = own_host_name();
  const auto shown = fmt::format("'{}'", printable(name, 100));
  const auto answer = ask_in_time(name);
  if (!answer)
    return {"host name", Health::Problem,
            fmt::format("{} is not looked up within {} s: the name service hangs; put it into "
                        "/etc/hosts, or use addresses (--master-addr)",
                        shown, kNamePatience.count())};
  if (!answer->address)
    return {"host name", Health::Warning,
            shown +
                " has no address: other machines must be given one (--master-addr, "
                "--rdzv-endpoint); put it into /etc/hosts"};
  if (answer->reverse > kSlowAnswer)
    return {"host name", Health::Warning,
            fmt::format("{} is {}, but the way back takes {} ms: the reverse lookup is slow, and "
                        "every rank may wait for it",
                        shown, *answer->address, answer->reverse.count())};
  if (answer->only_loopback)
    return {"host name", Health::Good,
            fmt::format("{} is {}, to this machine alone; others need its address", shown,
                        *answer->address)};
  return {"host name", Health::Good, fmt::format("{} is {}", shown, *answer->address)};
}

Finding look_at_loopback() {
  const auto problem = [](const char* what) {
    return Finding{"loopback", Health::Problem,
                   fmt::format("{}: {}: ranks of one machine cannot meet; is 'lo' up, does a "
                               "firewall or sandbox forbid sockets?",
                               what, std::strerror(errno))};
  };
  const FileDescriptor server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const FileDescriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof place;
  auto* const address = reinterpret_cast<sockaddr*>(&place);
  if (!server.is_open() || !client.is_open()) return problem("no socket");
  if (::bind(server.get(), address, size) != 0 || ::listen(server.get(), 1) != 0 ||
      ::getsockname(server.get(), address, &size) != 0)
    return problem("nothing can listen on 127.0.0.1");
  if (::connect(client.get(), address, size) != 0 && errno != EINPROGRESS)
    return problem("127.0.0.1 cannot be reached");
  return {"loopback", Health::Good, "127.0.0.1 can be listened on and reached"};
}

}  // namespace lockstep::cli
