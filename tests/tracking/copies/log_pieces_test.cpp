#include "tracking/copies/log_pieces.h"

#include <catch2/catch.hpp>

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

formats::ObjectInfo object(const std::string& key, int64_t size) {
  return {.key = key, .size = size};
}

std::vector<std::string> names_of(const std::vector<LogPiece>& pieces) {
  std::vector<std::string> names;
  for (const auto& piece : pieces) names.push_back(piece.object.key);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("of pieces with the same beginning, the longest counts") {
  const std::string log = "events/rank-00000.lsev/";
  const auto pieces = log_pieces({object(log + "0-5", 5), object(log + "9-12", 3),
                                  object(log + "0-9", 9), object(log + "9-10", 1)});
  CHECK(pieces.at("rank-00000.lsev").size() == 4);
  const auto whole = without_replaced(pieces.at("rank-00000.lsev"));
  CHECK(names_of(whole) == Names{log + "0-9", log + "9-12"});
  CHECK(size_of_pieces(whole) == 12);
}

TEST_CASE("a log ends before a gap, and needs a beginning") {
  const std::string log = "events/node-00001.2.lsev/";
  const auto pieces = log_pieces({object(log + "0-5", 5), object(log + "6-8", 2)});
  CHECK(names_of(without_replaced(pieces.at("node-00001.2.lsev"))) == Names{log + "0-5"});
  CHECK(without_replaced(log_pieces({object(log + "6-8", 2)}).at("node-00001.2.lsev")).empty());
  CHECK(size_of_pieces({}) == 0);
}

TEST_CASE("objects that are no pieces are skipped") {
  const std::string log = "events/rank-00000.lsev/";
  for (const auto& name :
       {log + "0-5-6", log + "-5", log + "0-", log + "5-0", log + "0-0", log + "a-5", log + "0x0-5",
        log + "0-5/0-5", log + "0-99999999999999999999", std::string("events/0-5"),
        std::string("events//0-5"), std::string("events/../rank-00000.lsev/0-5"),
        std::string("events/rank-0.lsev.x/0-5"), std::string("rank-00000.lsev/0-5"),
        std::string("events/other/0-5"), std::string("events")})
    CHECK(log_pieces({object(name, 5)}).empty());
  CHECK(log_pieces({object(log + "0-5", 0)}).empty());  // Azure: being written
  CHECK(log_pieces({object(log + "0-1000000000", 1'000'000'000)}).empty());
}
