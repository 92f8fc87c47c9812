#include "formats/store/hedged_reads.h"

#include <algorithm>
#include <catch2/catch.hpp>

namespace lockstep::formats {
namespace {

constexpr double kMb = 1e6, kConnections = 16;

// A network, by the same model for all stores: connections share the link, and wait for the latency.
struct Network {
  double link = 0, connection = 1e12;  // bytes per s: of all connections, of one
  double latency_s = 0;

  double seconds_of(int64_t piece) const {
    const auto bytes = static_cast<double>(piece);
    return std::max(latency_s + bytes / connection, kConnections * bytes / link);
  }
  double rate(int64_t piece) const {
    return kConnections * static_cast<double>(piece) / seconds_of(piece);
  }
};

// The size of pieces after many reads.
int64_t piece_on(const Network& network) {
  int64_t piece = 2 * HedgedReads::kMinPiece;
  for (int i = 0; i < 200; ++i)
    piece = HedgedReads::next_piece(piece, piece,
                                    std::chrono::duration<double>(network.seconds_of(piece)),
                                    std::chrono::duration<double>(network.latency_s));
  return piece;
}

TEST_CASE("hedged reads: pieces fill a fast link, and are small where the link is slow") {
  const Network gigabit{.link = 125 * kMb, .latency_s = 0.02};
  CHECK(gigabit.rate(piece_on(gigabit)) == Approx(gigabit.link));
  CHECK(kConnections * static_cast<double>(piece_on(gigabit)) < 33 * kMb);
  for (const auto latency_s : {0.0002, 0.05, 0.1}) {
    const Network fast{.link = 1250 * kMb, .latency_s = latency_s};
    CHECK(fast.rate(piece_on(fast)) > 0.99 * fast.link);
    CHECK(piece_on(fast) == HedgedReads::kMaxPiece);
  }
  const Network distant{.link = 125 * kMb, .latency_s = 0.3};
  CHECK(distant.rate(piece_on(distant)) == Approx(distant.link));
  // Stores that limit each connection: the latency is a small part of the time of a request.
  const Network limited{.link = 3000 * kMb, .connection = 80 * kMb, .latency_s = 0.03};
  CHECK(limited.rate(piece_on(limited)) > 0.75 * kConnections * limited.connection);
  const Network slow{.link = 12 * kMb, .latency_s = 0.02};
  CHECK(piece_on(slow) < HedgedReads::kMinPiece + 10);
}

TEST_CASE("hedged reads: small objects do not change the size of pieces") {
  CHECK(HedgedReads::next_piece(5 << 20, 1000, std::chrono::milliseconds(20), {}) == 5 << 20);
}

}  // namespace
}  // namespace lockstep::formats
