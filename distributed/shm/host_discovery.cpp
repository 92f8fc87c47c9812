#include "distributed/shm/host_discovery.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep::distributed::shm {
namespace {

using nlohmann::json;

std::string key_of(const char* what, int rank) { return fmt::format("{}/{}", what, rank); }

void write_token(SegmentHeader& header) {
  if (::getrandom(header.token, sizeof(header.token), 0) != sizeof(header.token))
    throw errno_error("no random numbers");
}

json token_of(const SegmentHeader& header) { return {header.token[0], header.token[1]}; }

void sign_in(const Segment& segment, int rank) {
  lines_of(segment)[rank].pid.store(::getpid(), std::memory_order_release);
}

// What rank 0 knows about where a segment is, or why there can be none.
json make_segment(Segment& segment, const HostRank& place) {
  try {
    segment = Segment::create(Group::segment_bytes(place.num_ranks));
  } catch (const Error& error) {
    return {{"reason", error.what()}};
  }
  write_token(header_of(segment));
  return {{"pid", ::getpid()}, {"fd", segment.fd()}, {"token", token_of(header_of(segment))}};
}

// Why ranks cannot share memory; empty when they may try.
std::string compare_hosts(Board& board, const HostRank& place) {
  for (int rank = 1; rank < place.num_ranks; ++rank) {
    const auto host = board.get(key_of("host", rank));
    if (host.empty() || host != place.host)
      return fmt::format("rank {} is on another host than rank 0, or in another container", rank);
  }
  return place.host.empty() ? "the host of rank 0 has no identity" : "";
}

std::string open_segment(Segment& segment, const json& where, const HostRank& place) {
  try {
    segment = Segment::open(where["pid"].get<pid_t>(), where["fd"].get<int>(),
                            Group::segment_bytes(place.num_ranks));
    if (token_of(header_of(segment)) != where["token"]) return "another segment was found";
  } catch (const Error& error) {
    return error.what();
  }
  sign_in(segment, place.rank);
  return "";
}

std::string collect_answers(Board& board, const HostRank& place) {
  for (int rank = 1; rank < place.num_ranks; ++rank) {
    const auto problem = board.get(key_of("mapped", rank));
    if (problem != "yes") return fmt::format("rank {}: {}", rank, problem);
  }
  return "";
}

DiscoveredGroup lead(Board& board, const HostRank& place) {
  Segment segment;
  auto reason = compare_hosts(board, place);
  const auto where = reason.empty() ? make_segment(segment, place) : json{{"reason", reason}};
  board.put("segment", where.dump());
  if (where.contains("reason")) return {nullptr, where["reason"].get<std::string>()};
  sign_in(segment, place.rank);
  reason = collect_answers(board, place);
  board.put("verdict", reason.empty() ? "yes" : reason);
  if (!reason.empty()) return {nullptr, reason};
  segment.close_file();
  return {std::make_unique<Group>(std::move(segment), place.rank, place.num_ranks), ""};
}

DiscoveredGroup follow(Board& board, const HostRank& place) {
  board.put(key_of("host", place.rank), place.host);
  const auto where = json::parse(board.get("segment"));
  if (where.contains("reason")) return {nullptr, where["reason"].get<std::string>()};
  Segment segment;
  const auto problem = open_segment(segment, where, place);
  board.put(key_of("mapped", place.rank), problem.empty() ? "yes" : problem);
  const auto verdict = board.get("verdict");
  if (verdict != "yes") return {nullptr, verdict};
  return {std::make_unique<Group>(std::move(segment), place.rank, place.num_ranks), ""};
}

}  // namespace

DiscoveredGroup meet(Board& board, const HostRank& place) {
  return place.rank == 0 ? lead(board, place) : follow(board, place);
}

}  // namespace lockstep::distributed::shm
