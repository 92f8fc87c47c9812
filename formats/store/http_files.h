// Files of HTTP servers, by their addresses. Only files of formats/ include this.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/http/http_client.h"
#include "core/system/mutex.h"
#include "formats/store/object_store.h"

namespace lockstep::formats {

// A file, and how messages name it.
struct HttpPlace {
  std::string url;    // percent-encoded
  std::string shown;  // a path, printable
};

// Follows up to 10 redirects, of which none from https to http.
//
// Thread: safe to call from several threads concurrently. Each function is one attempt, and throws
// StoreError.
class HttpFiles {
 public:
  // The error of an answer with this status, if the caller knows more than the status says.
  using Explain =
      std::function<std::optional<StoreError>(const std::string& shown, const HttpResponse&)>;

  struct Options {
    double timeout_s = 10;  // as BucketOptions
    std::string token;      // secret; sent to `token_origin` only. Empty: none
    std::string token_origin;
    HttpProxies proxies;
    Explain explain;
  };

  explicit HttpFiles(Options options);

  // Size and version, of an answer to a request for the first byte, and the last answer of the server
  // of `place`, which can redirect to another server.
  struct Info {
    ObjectInfo object;
    HttpResponse own;
  };
  Info info(const HttpPlace& place);

  // As ObjectStore. A version other than that of `object` is an error; `object.tag` and `modified`
  // are compared if `compares` is set, otherwise the size only.
  void read(const HttpPlace& place, const ObjectInfo& object, int64_t offset,
            std::span<uint8_t> out, bool compares);
  void read_whole(const HttpPlace& place, const ObjectInfo& object, const TakeBytes& take,
                  bool compares);

  // A text of at most 64 MiB, and its headers.
  HttpResponse text(const HttpPlace& place);

 private:
  struct Answer {
    HttpResponse response, own;  // own: as Info
    std::string url;             // after redirects
  };
  Answer follow(const HttpPlace& place, std::string url, const HttpHeaders& headers,
                const HttpReceiver& receiver);
  HttpResponse request(const HttpPlace& place, const std::string& url, const HttpHeaders& headers,
                       const HttpReceiver& receiver);
  Answer request_from_start(const HttpPlace& place, const HttpHeaders& headers,
                            const HttpReceiver& receiver);
  void request_again(const HttpPlace& place, const HttpHeaders& headers,
                     const HttpReceiver& receiver);
  [[noreturn]] void refuse(const HttpPlace& place, const HttpResponse& response) const;
  std::unique_ptr<HttpClient> take_client(const std::string& origin, const HttpAddress& address);
  void give_back(const std::string& origin, std::unique_ptr<HttpClient> client);

  const Options options_;
  Mutex mutex_;
  // With their origins, the newest last.
  std::deque<std::pair<std::string, std::unique_ptr<HttpClient>>> idle_ GUARDED_BY(mutex_);
  std::map<std::string, std::string> locations_ GUARDED_BY(mutex_);  // after redirects, by URL
};

}  // namespace lockstep::formats
