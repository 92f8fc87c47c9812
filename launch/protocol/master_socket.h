// The socket of the rendezvous store, bound by the launcher before any worker exists and handed
// over to rank 0: nobody else can take the port in between, and workers that connect early wait in
// its queue.
#pragma once

#include <string>

#include "core/system/file_descriptor.h"

namespace lockstep::launch {

struct MasterSocket {
  FileDescriptor fd;  // listening, closed on exec
  int port = 0;
};

// `port` 0: any free one. `loopback_only`: reachable from this host alone (127.0.0.1), else from
// everywhere (IPv4, IPv6). Throws Environment when the port is taken or may not be used, Config
// when it is not 0 to 65535.
MasterSocket listen_as_master(int port, bool loopback_only);

// On a free port of a numeric address of this machine, where workers of other nodes reach it;
// everywhere when the address is not this machine's own (a forwarded one). Throws Environment.
MasterSocket listen_as_master_at(const std::string& address);

}  // namespace lockstep::launch
