#include "launch/environment/node_list.h"

#include <catch2/catch.hpp>

namespace lockstep::launch {

TEST_CASE("node list: the first host of a Slurm node list") {
  const auto [list, host] = GENERATE(table<std::string, std::string>({
      {"n1", "n1"},
      {"n1,n2", "n1"},
      {"n[1-3,7],m02", "n1"},
      {"n[07-10]", "n07"},
      {"n[3]", "n3"},
      {"n[5,1-2]", "n5"},
      {"gpu-a.cluster[01-02].example.org", "gpu-a.cluster01.example.org"},
      {"r[1-2]n[4-8]", "r1n4"},
      {"m02,n[1-3]", "m02"},
      {"10.0.0.1", "10.0.0.1"},
      {"fd00::2", "fd00::2"},
      {"n[1-2]-ib", "n1-ib"},
  }));
  CHECK(first_host(list) == host);
}

TEST_CASE("node list: an invalid list has no first host") {
  const auto list = GENERATE(std::string(), ",n1", "[", "n[", "n[1", "n[]", "n[-1]", "n[a-b]", "n]",
                             "n 1", "(null)", "-n1", "n[1-2", "n\n", "n;reboot");
  CHECK_FALSE(first_host(list));
}

TEST_CASE("node list: the length of names is limited") {
  CHECK_FALSE(first_host(std::string(256, 'n')));
  CHECK(first_host(std::string(255, 'n')));
}

}  // namespace lockstep::launch
