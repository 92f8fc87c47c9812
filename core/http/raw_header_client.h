// cpp-httplib's client, which also keeps the header of an answer as it was sent. The library decodes
// %XX in the values of headers, which damages the addresses in Location and Link.
// Only files of core/ include this.
#pragma once

// Must match the build of the library.
#ifndef CPPHTTPLIB_OPENSSL_SUPPORT
#define CPPHTTPLIB_OPENSSL_SUPPORT
#endif
#include <httplib.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// The header of the last answer: the lines of its status and fields, without those of answers with
// a status below 200.
struct RawHeader {
  std::string text;
  bool is_complete = false;
  bool is_too_long = false;  // more than 64 KiB

  // The next bytes of the answer, of which those after the header are ignored.
  void add(std::string_view bytes);
};

// An answer, as its bytes arrive.
struct RawAnswer {
  RawHeader header;
  std::chrono::nanoseconds waited{0};  // for bytes
  bool has_timed_out = false;          // sending or waiting
  bool is_at_proxy = false;            // there is no connection, or it was closed
  int proxy_status = 0;                // of a proxy that refuses to connect to the server; else 0

  // Since the receiver of the body got the last bytes, which sets both to 0: the header, sizes of
  // chunks and the fields after them are limited.
  size_t unused_bytes = 0;
  std::chrono::nanoseconds unused_waited{0};
};

// A proxy, and the value of its header Proxy-Authorization; empty: none.
struct RawProxy {
  std::string host;
  int port = 0;
  std::string authorization;
};

// `answer`: replaced by each request; outlives the client. `timeout`: of sending the next bytes, of
// the whole header, and of the next bytes of the body. With a proxy and without TLS, the path of a
// request has to be a URL, and the request has to have the header.
std::unique_ptr<httplib::ClientImpl> raw_header_client(bool tls, const std::string& host, int port,
                                                       std::chrono::milliseconds timeout,
                                                       const std::optional<RawProxy>& proxy,
                                                       RawAnswer& answer);

}  // namespace lockstep
