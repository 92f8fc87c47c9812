// Where ranks on other hosts reach this one.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>

namespace lockstep::distributed {

struct AddressQuery {
  std::string master;  // the host of rank 0, as this rank was told
  int world_size = 1;
  std::chrono::milliseconds timeout{};
};

// Collective, when the ranks are on several hosts. The numeric address of the interface that
// reaches rank 0's host; on that host itself, the address that the other hosts know it by: its own
// /etc/hosts may give its name to 127.0.1.1. Throws Environment when the name is not known.
std::string own_address(c10d::Store& store, const AddressQuery& question);

}  // namespace lockstep::distributed
