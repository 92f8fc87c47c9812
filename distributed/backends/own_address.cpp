#include "distributed/backends/own_address.h"

#include <fmt/format.h>

#include "core/system/local_address.h"
#include "lockstep/error.h"

namespace lockstep::distributed {
namespace {

constexpr const char* kAddressOfMaster = "address of rank 0's host";
constexpr const char* kLookedUp = "ranks that looked it up";
constexpr const char* kAllLookedUp = "all have looked it up";

}  // namespace

std::string own_address(c10d::Store& store, const AddressQuery& query) {
  const bool is_hidden = is_name_for_loopback(query.master);
  const auto address = numeric_address_of(query.master);
  if (address && !is_hidden) store.set(kAddressOfMaster, *address);
  if (store.add(kLookedUp, 1) == query.world_size) store.set(kAllLookedUp, "yes");
  if (is_hidden) {
    store.wait({kAllLookedUp}, query.timeout);
    // If no rank resolves it to another address, all ranks are on this host.
    if (store.check({kAddressOfMaster})) return store.get_to_str(kAddressOfMaster);
  }
  if (const auto own = local_address_for(query.master)) return *own;
  throw environment_error(
      fmt::format("cannot resolve or reach the rendezvous host '{}'", query.master));
}

}  // namespace lockstep::distributed
