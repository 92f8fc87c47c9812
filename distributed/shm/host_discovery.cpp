#include "distributed/shm/host_discovery.h"
#include "distributed/shm/group_windows.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep::distributed::shm {
namespace {

using nlohmann::json;

std::string key_of(const char* name, int rank) { return fmt::format("{}/{}", name, rank); }

void write_token(SegmentHeader& header) {
  if (::getrandom(header.token, sizeof(header.token), 0) != sizeof(header.token))
    throw errno_error("cannot get random numbers");
}

json token_of(const SegmentHeader& header) { return {header.token[0], header.token[1]}; }

void publish_pid(const Segment& segment, int rank) {
  rank_states_of(segment)[rank].pid.store(::getpid(), std::memory_order_release);
}

// Returns the location of the segment, or the reason why it could not be created.
json make_segment(Segment& segment, const HostRank& self) {
  try {
    segment = Segment::create(Group::segment_bytes(self.num_ranks));
  } catch (const Error& error) {
    return {{"reason", error.what()}};
  }
  write_token(header_of(segment));
  return {{"pid", ::getpid()}, {"fd", segment.fd()}, {"token", token_of(header_of(segment))}};
}

// Returns why ranks cannot share memory; empty if all have the same host identity.
std::string compare_hosts(KeyValueStore& store, const HostRank& self) {
  for (int rank = 1; rank < self.num_ranks; ++rank) {
    const auto host = store.get(key_of("host", rank));
    if (host.empty() || host != self.host)
      return fmt::format("rank {} is on another host than rank 0, or in another container", rank);
  }
  return self.host.empty() ? "the host of rank 0 has no identity" : "";
}

std::string open_segment(Segment& segment, const json& where, const HostRank& self) {
  try {
    segment = Segment::open(where["pid"].get<pid_t>(), where["fd"].get<int>(),
                            Group::segment_bytes(self.num_ranks));
    segment.close_file();
    if (token_of(header_of(segment)) != where["token"]) return "another segment was found";
  } catch (const Error& error) {
    return error.what();
  }
  publish_pid(segment, self.rank);
  return "";
}

// Returns why a rank could not map the segment; empty if all could.
std::string check_all_mapped(KeyValueStore& store, const HostRank& self) {
  for (int rank = 1; rank < self.num_ranks; ++rank) {
    const auto problem = store.get(key_of("mapped", rank));
    if (problem != "yes") return fmt::format("rank {}: {}", rank, problem);
  }
  return "";
}

DiscoveredGroup create_group(KeyValueStore& store, const HostRank& self) {
  Segment segment;
  auto reason = compare_hosts(store, self);
  const auto where = reason.empty() ? make_segment(segment, self) : json{{"reason", reason}};
  store.set("segment", where.dump());
  if (where.contains("reason")) return {nullptr, where["reason"].get<std::string>()};
  publish_pid(segment, self.rank);
  reason = check_all_mapped(store, self);
  store.set("verdict", reason.empty() ? "yes" : reason);
  if (!reason.empty()) return {nullptr, reason};
  segment.close_file();
  return {std::make_unique<Group>(std::move(segment), self.rank, self.num_ranks), ""};
}

DiscoveredGroup join_group(KeyValueStore& store, const HostRank& self) {
  store.set(key_of("host", self.rank), self.host);
  const auto where = json::parse(store.get("segment"));
  if (where.contains("reason")) return {nullptr, where["reason"].get<std::string>()};
  Segment segment;
  const auto problem = open_segment(segment, where, self);
  store.set(key_of("mapped", self.rank), problem.empty() ? "yes" : problem);
  const auto verdict = store.get("verdict");
  if (verdict != "yes") return {nullptr, verdict};
  return {std::make_unique<Group>(std::move(segment), self.rank, self.num_ranks), ""};
}

}  // namespace

DiscoveredGroup discover_host_group(KeyValueStore& store, const HostRank& self) {
  return self.rank == 0 ? create_group(store, self) : join_group(store, self);
}

}  // namespace lockstep::distributed::shm
