// Collectives on JSON values, sent as MessagePack over the control group: for configuration, states
// and everything whose size differs between ranks. Binary strings and non-finite numbers survive.
// At most 1 GiB per rank. All are collective; errors as in distributed/collectives.h. With one rank
// they return at once.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/world.h"

namespace lockstep::distributed {

// Every rank's value, rank by rank, on every rank.
std::vector<nlohmann::json> all_gather_object(World& world, const nlohmann::json& value,
                                              const std::string& name);

// Every rank's value, rank by rank, on `root`; empty on the others.
std::vector<nlohmann::json> gather_object(World& world, const nlohmann::json& value, int root,
                                          const std::string& name);

// `root`'s value on every rank. What the others pass is ignored.
nlohmann::json broadcast_object(World& world, const nlohmann::json& value, int root,
                                const std::string& name);

// values[rank] of `root` on each rank. Requires on `root`: one value per rank. What the others pass
// is ignored.
nlohmann::json scatter_object(World& world, const std::vector<nlohmann::json>& values, int root,
                              const std::string& name);

// What `act`, called on rank 0 only, returned, on every rank; what it threw, every rank throws, of
// the same kind.
nlohmann::json act_on_main(World& world, const std::string& name,
                           const std::function<nlohmann::json()>& act);

}  // namespace lockstep::distributed
