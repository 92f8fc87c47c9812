#include "core/config/nearest_name.h"

#include <catch2/catch.hpp>

using namespace lockstep;

TEST_CASE("nearest name: a typo finds the intended name") {
  const std::vector<std::string> names = {"batch_size", "drop_last", "lr", "momentum"};
  CHECK(nearest_name("batchsize", names) == "batch_size");
  CHECK(nearest_name("momentmu", names) == "momentum");  // swapped letters are one error
  CHECK(nearest_name("lrr", names) == "lr");
  CHECK(nearest_name("l", names) == "lr");
  CHECK(nearest_name("droplast", names) == "drop_last");
}

TEST_CASE("nearest name: a completely different name finds nothing") {
  CHECK_FALSE(nearest_name("scheduler", {"lr", "momentum"}));
  CHECK_FALSE(nearest_name("x", {"lr", "momentum"}));
  CHECK_FALSE(nearest_name("lr", {}));
  CHECK_FALSE(nearest_name(std::string(100'000, 'a'), {std::string(100, 'a')}));
}

TEST_CASE("nearest name: the closest candidate wins, the first one of a tie") {
  CHECK(nearest_name("cat", {"cut", "car", "cat"}) == "cat");
  CHECK(nearest_name("cat", {"cut", "car"}) == "cut");
  // At the limit of 1 + size / 3: three errors in seven letters, not four.
  CHECK(nearest_name("abcdefg", {"abcdxyz"}) == "abcdxyz");
  CHECK_FALSE(nearest_name("abcdefg", {"abcwxyz"}));
}

TEST_CASE("nearest name: a suggestion lists the valid names") {
  CHECK(suggest("momentun", {"lr", "momentum"}) ==
        "; did you mean 'momentum'? valid: lr, momentum");
  CHECK(suggest("qqqqqq", {"lr", "momentum"}) == "; valid: lr, momentum");
  CHECK(suggest("lr", {}) == "; none are valid here");
}
