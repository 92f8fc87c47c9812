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

constexpr std::chrono::seconds kLookupTimeout{5};
constexpr std::chrono::milliseconds kSlowLookup{500};

struct NameLookup {
  std::optional<std::string> address;
  bool only_loopback = false;
  std::chrono::milliseconds reverse{0};  // duration of the reverse lookup
};

// Looks up the name of an address and discards it.
void reverse_lookup(const std::string& address) {
  const auto found = resolve(address, 0).front();
  std::array<char, NI_MAXHOST> name{};
  ::getnameinfo(found.get(), found.size, name.data(), name.size(), nullptr, 0, 0);
}

NameLookup resolve_name(const std::string& name) {
  NameLookup lookup{.address = numeric_address_of(name),
                    .only_loopback = is_name_for_loopback(name)};
  if (!lookup.address) return lookup;
  const auto begin = std::chrono::steady_clock::now();
  reverse_lookup(*lookup.address);
  lookup.reverse = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  return lookup;
}

// nullopt after kLookupTimeout: the thread is detached, as the name service may hang.
std::optional<NameLookup> resolve_with_timeout(const std::string& name) {
  std::promise<NameLookup> promise;
  auto lookup = promise.get_future();
  std::thread([name, promise = std::move(promise)]() mutable {
    promise.set_value(resolve_name(name));
  }).detach();
  if (lookup.wait_for(kLookupTimeout) != std::future_status::ready) return std::nullopt;
  return lookup.get();
}

}  // namespace

Finding check_host_name() {
  const auto name = own_host_name();
  const auto shown = fmt::format("'{}'", printable(name, 100));
  const auto lookup = resolve_with_timeout(name);
  if (!lookup)
    return {"host name", Health::Problem,
            fmt::format("lookup of {} timed out after {} s: the name service hangs; add it to "
                        "/etc/hosts, or use addresses (--master-addr)",
                        shown, kLookupTimeout.count())};
  if (!lookup->address)
    return {"host name", Health::Warning,
            shown +
                " does not resolve: add it to /etc/hosts, or pass an address to other machines "
                "(--master-addr, --rdzv-endpoint)"};
  if (lookup->reverse > kSlowLookup)
    return {"host name", Health::Warning,
            fmt::format("{} resolves to {}, but the reverse lookup takes {} ms, and every rank may "
                        "wait for it",
                        shown, *lookup->address, lookup->reverse.count())};
  if (lookup->only_loopback)
    return {"host name", Health::Good,
            fmt::format("{} resolves to {}, on this machine only; others need its address", shown,
                        *lookup->address)};
  return {"host name", Health::Good, fmt::format("{} resolves to {}", shown, *lookup->address)};
}

Finding check_loopback() {
  const auto problem = [](const char* what) {
    return Finding{"loopback", Health::Problem,
                   fmt::format("{}: {}: ranks of one machine cannot connect; is 'lo' up, does a "
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
  if (!server.is_open() || !client.is_open()) return problem("cannot create a socket");
  if (::bind(server.get(), address, size) != 0 || ::listen(server.get(), 1) != 0 ||
      ::getsockname(server.get(), address, &size) != 0)
    return problem("cannot listen on 127.0.0.1");
  if (::connect(client.get(), address, size) != 0 && errno != EINPROGRESS)
    return problem("cannot connect to 127.0.0.1");
  return {"loopback", Health::Good, "127.0.0.1 accepts connections"};
}

}  // namespace lockstep::cli
