// Authentication, endpoints and tokens of the rendezvous, without a job.
#include <catch2/catch.hpp>

#include "launch/protocol/address.h"
#include "launch/protocol/authentication.h"
#include "launch/protocol/frame.h"
#include "launch/protocol/token.h"
#include "launch/rendezvous/job_token.h"
#include "lockstep/error.h"
#include "tests/launch/environment_guard.h"
#include "tests/temporary_directory.h"

namespace lockstep::launch {

TEST_CASE("rendezvous: proofs depend on token, side and both challenges") {
  const Challenges challenges{.coordinator = "a", .node = "b"};
  const auto proof = proof_of(Side::Node, "token", challenges);
  CHECK(is_same_proof(proof, proof_of(Side::Node, "token", challenges)));
  CHECK_FALSE(is_same_proof(proof, proof_of(Side::Coordinator, "token", challenges)));
  CHECK_FALSE(is_same_proof(proof, proof_of(Side::Node, "other", challenges)));
  CHECK_FALSE(is_same_proof(proof, proof_of(Side::Node, "token", {"a", "c"})));
  CHECK_FALSE(is_same_proof(proof, proof_of(Side::Node, "token", {"c", "b"})));
  CHECK_FALSE(is_same_proof(proof, ""));
}

TEST_CASE("rendezvous: a sealed message can be opened once, in order, and unchanged") {
  const Challenges challenges{.coordinator = "a", .node = "b"};
  FrameSeal sender(Side::Node, "token", challenges), reader(Side::Node, "token", challenges);
  const auto first = sender.seal("one"), second = sender.seal("two");
  CHECK(reader.open(first) == "one");
  auto changed = second;
  changed.back() = '3';
  SECTION("unchanged") { CHECK(reader.open(second) == "two"); }
  SECTION("again") { CHECK_THROWS_AS(reader.open(first), Error); }
  SECTION("changed") { CHECK_THROWS_AS(reader.open(changed), Error); }
  SECTION("cut") { CHECK_THROWS_AS(reader.open(second.substr(0, 10)), Error); }
}

TEST_CASE("rendezvous: endpoints are parsed in every notation") {
  const auto text = [](const std::string& given) {
    const auto endpoint = parse_endpoint(given, 29400, "--rdzv-endpoint");
    return endpoint.host + " " + std::to_string(endpoint.port);
  };
  CHECK(text("host") == "host 29400");
  CHECK(text("10.0.0.1:5") == "10.0.0.1 5");
  CHECK(text("[::1]:5") == "::1 5");
  CHECK(text("[::1]") == "::1 29400");
  CHECK(text("fd99::1") == "fd99::1 29400");
  for (const char* wrong : {"", ":5", "host:", "host:x", "host:70000", "[::1", "[::1]5", "host:-1"})
    CHECK_THROWS_AS(text(wrong), Error);
}

TEST_CASE("rendezvous: a token of a scheduler's job is awaited for as long as other nodes are") {
  TemporaryDirectory directory;
  try {
    JobToken(directory.path(), "slurm-1-0", false, std::chrono::milliseconds(10));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Environment);
    CHECK(std::string(error.what()).starts_with("timed out after 0.01 s: no job token in "));
  }
  const JobToken served(directory.path(), "slurm-1-0", true, std::chrono::milliseconds(10));
  CHECK(JobToken(directory.path(), "slurm-1-0", false, std::chrono::milliseconds(10)).text() ==
        served.text());
}

TEST_CASE("rendezvous: a token comes from a private file or from the environment") {
  EnvironmentGuard environment;
  TemporaryDirectory directory;
  CHECK(read_token(std::nullopt).empty());
  environment.set("LOCKSTEP_RDZV_TOKEN", "too short");
  CHECK_THROWS_AS(read_token(std::nullopt), Error);
  environment.set("LOCKSTEP_RDZV_TOKEN", "sixteen characters and more");
  CHECK(read_token(std::nullopt) == "sixteen characters and more");
  const auto file = directory.path() / "token";
  make_token_file(file);
  CHECK(read_token(file).size() == 64);
  CHECK_THROWS_AS(make_token_file(file), Error);
  std::filesystem::permissions(file, std::filesystem::perms::group_read,
                               std::filesystem::perm_options::add);
  CHECK_THROWS_AS(read_token(file), Error);
}

}  // namespace lockstep::launch
