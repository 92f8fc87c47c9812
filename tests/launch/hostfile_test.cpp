#include "launch/ssh/hostfile.h"

#include <catch2/catch.hpp>

#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

std::string config_error_of(const std::string& text) {
  try {
    parse_hostfile(text, "hosts");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Config);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("hostfile: hosts, users, ports, slots and comments") {
  const auto hosts = parse_hostfile(
      "# the cluster\n"
      "gpu1 slots=4\n"
      "\n"
      "\tanna@gpu-2.example.org:2222  slots=4   # the slow one\r\n"
      "10.0.0.3\n"
      "fd00::4\n"
      "bob@[fd00::5]:22 slots=4",
      "hosts");
  REQUIRE(hosts.size() == 5);
  CHECK(hosts[0].name == "gpu1");
  CHECK(hosts[0].slots == 4);
  CHECK(hosts[0].line == 2);
  CHECK_FALSE(hosts[0].user);
  CHECK_FALSE(hosts[0].port);
  CHECK(hosts[1].name == "gpu-2.example.org");
  CHECK(hosts[1].user == "anna");
  CHECK(hosts[1].port == 2222);
  CHECK(hosts[1].line == 4);
  CHECK(hosts[2].name == "10.0.0.3");
  CHECK_FALSE(hosts[2].slots);
  CHECK(hosts[3].name == "fd00::4");
  CHECK_FALSE(hosts[3].port);
  CHECK(hosts[4].name == "fd00::5");
  CHECK(hosts[4].user == "bob");
  CHECK(hosts[4].port == 22);
}

TEST_CASE("hostfile: errors name the line") {
  CHECK(config_error_of("# nothing\n\n") == "hosts: no hosts; expected one per line");
  CHECK(config_error_of("a\nb slot=2") ==
        "hosts:2: unexpected 'slot=2'; expected 'host', 'user@host' or 'host:port', then "
        "'slots=N'");
  CHECK(config_error_of("a slots=0") == "hosts:1: slots '0': expected a number from 1 to 1024");
  CHECK(config_error_of("a slots=2 slots=2") == "hosts:1: slots is given twice");
  CHECK(config_error_of("a:0") == "hosts:1: port '0': expected a number from 1 to 65535");
  CHECK(config_error_of("a:ssh") == "hosts:1: port 'ssh': expected a number from 1 to 65535");
  CHECK(config_error_of("[fd00::1") == "hosts:1: '[fd00::1' has no ']'");
  CHECK(config_error_of("[fd00::1]22") == "hosts:1: '[fd00::1]22': expected ':port' after ']'");
  CHECK(config_error_of("@a") ==
        "hosts:1: '' is not a valid user name: expected letters, digits, '-', '_' and '.'");
  CHECK(config_error_of("a\nb\na slots=2") ==
        "hosts:3: a is already listed in line 1; set its number of ranks with slots=N");
}

TEST_CASE("hostfile: a name cannot become an option or a command") {
  for (const char* text : {"-oProxyCommand=sh", "a;b", "$(a)", "-l@a", "a@-b", "`a`", "a\x01"})
    CHECK(config_error_of(text).find("is not a valid ") != std::string::npos);
}

TEST_CASE("hostfile: the same name with different ports is two hosts") {
  CHECK(parse_hostfile("a:22\na:23", "hosts").size() == 2);
}

TEST_CASE("hostfile: the number of ranks is the requested one, the slots, or one") {
  const auto hosts = parse_hostfile("a slots=3\nb", "hosts");
  CHECK(ranks_on(hosts[0], std::nullopt, "hosts") == 3);
  CHECK(ranks_on(hosts[1], std::nullopt, "hosts") == 1);
  CHECK(ranks_on(hosts[0], 2, "hosts") == 2);
  CHECK(ranks_on(hosts[1], 4, "hosts") == 4);
  try {
    ranks_on(hosts[0], 4, "hosts");
    FAIL("four ranks on three slots");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Config);
    CHECK(error.what() == std::string("hosts:1: a has slots=3, but -n requests 4 ranks per host"));
  }
}

}  // namespace lockstep::launch
