#include "launch/rendezvous/job_claims.h"

#include <catch2/catch.hpp>

#include "lockstep/error.h"
#include "tests/temporary_directory.h"

namespace lockstep::launch {

TEST_CASE("job claims: the first side continues, the other one does not") {
  const TemporaryDirectory directory;
  JobClaims alpha(directory.path() / "claims", "key", 0),
      beta(directory.path() / "claims", "key", 1);
  CHECK(alpha.claim({0, 2}));
  CHECK_FALSE(beta.claim({1}));
  CHECK_FALSE(beta.claim({1}));
  CHECK(alpha.claim({0}));
  CHECK(alpha.count() == 2);
}

TEST_CASE("job claims: a node of the last claim continues, although it does not know of it") {
  const TemporaryDirectory directory;
  JobClaims alpha(directory.path(), "key", 0), beta(directory.path(), "key", 1);
  CHECK(alpha.claim({0, 1}));  // and is lost before the others know
  CHECK(beta.claim({1}));
  CHECK(beta.count() == 2);
  CHECK_FALSE(alpha.claim({0}));
}

TEST_CASE("job claims: each attempt has its own") {
  const TemporaryDirectory directory;
  JobClaims first(directory.path(), "first", 0), second(directory.path(), "second", 1);
  CHECK(first.claim({0}));
  CHECK(second.claim({1}));
}

TEST_CASE("job claims: a directory that cannot be written") {
  JobClaims claims("/proc/claims", "key", 0);
  CHECK_THROWS_AS(claims.claim({0}), Error);
}

}  // namespace lockstep::launch
