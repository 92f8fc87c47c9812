// The listening socket of the rendezvous store, bound by the launcher before any worker starts and
// passed to rank 0: no other process can take the port in between, and workers that connect early
// wait in its queue.
#pragma once

#include <string>

#include "core/system/file_descriptor.h"

namespace lockstep::launch {

struct MasterSocket {
  FileDescriptor fd;  // listening, closed on exec
  int port = 0;
};

// `port` 0: any free one. `loopback_only`: listen on 127.0.0.1 only, else on all addresses (IPv4
// and IPv6). Throws Environment if the port is taken or not permitted, Config if it is not 0 to
// 65535.
MasterSocket listen_as_master(int port, bool loopback_only);

// Listens on a free port of a numeric address at which other nodes reach this machine, or on all
// addresses if it is not a local one (it is forwarded). Throws Environment.
MasterSocket listen_as_master_at(const std::string& address);

}  // namespace lockstep::launch
