#include "formats/store/retries.h"

#include <catch2/catch.hpp>

namespace lockstep::formats {

TEST_CASE("pace: what is reserved takes as long as the rate says, one after the other") {
  Pace pace;
  const Pace::Clock::time_point begin{std::chrono::hours(1)};
  using std::chrono::milliseconds;
  CHECK(pace.reserve(100, 1000, begin) == begin);
  CHECK(pace.reserve(50, 1000, begin) == begin + milliseconds(100));
  CHECK(pace.reserve(1, 1000, begin + milliseconds(20)) == begin + milliseconds(150));
  CHECK(pace.reserve(1, 1000, begin + milliseconds(500)) ==
        begin + milliseconds(500));  // unused time is lost
  CHECK(pace.reserve(1, 0, begin) == begin);
}

}  // namespace lockstep::formats
