#include "formats/store/http_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "core/number_text.h"
#include "core/printable.h"
#include "formats/store/http_values.h"

namespace lockstep::formats {
namespace {

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxIdleClients = 64, kMaxLocations = 10'000;
constexpr int64_t kMaxDrainedBytes = 64 << 10;
constexpr size_t kMaxTextBytes = 64u << 20;
constexpr int64_t kMaxRetryAfterSeconds = 60;

HttpHeaders without_encoding() { return {{"Accept-Encoding", "identity"}}; }

// The path and query of a URL, as they are.
std::string path_and_query(const std::string& url) {
  const auto rest = url.substr(origin_length(url));
  return (rest.starts_with('/') ? "" : "/") + rest;
}

bool is_redirect(const HttpResponse& response) {
  const auto status = response.status;
  return (status == 301 || status == 302 || status == 303 || status == 307 || status == 308) &&
         !response.header("location").empty();
}

std::optional<int64_t> length_of(const HttpResponse& response) {
  const auto length = parse_number<int64_t>(response.header("content-length"));
  return length && *length >= 0 ? length : std::nullopt;
}

StoreError changed_error(const HttpPlace& place) {
  return {StoreFailure::Other, ErrorKind::Environment, place.shown + ": " + kObjectChanged};
}

StoreError temporary_error(const HttpPlace& place, const std::string& why,
                           int64_t retry_after_s = 0) {
  return {StoreFailure::Temporary, ErrorKind::Environment, place.shown + ": " + why, retry_after_s};
}

StoreError refused_error(const HttpPlace& place, const std::string& why,
                         StoreFailure failure = StoreFailure::Other) {
  return {failure, ErrorKind::Config, place.shown + ": " + why};
}

HttpAddress address_of(const std::string& url, const HttpPlace& place) {
  try {
    return parse_http_address(url, place.shown);
  } catch (const Error& error) {
    throw StoreError(StoreFailure::Other, error.kind(), error.what());
  }
}

// Throws if what the answer says about the version differs from `object`.
void verify_version(const HttpPlace& place, const ObjectInfo& object, const HttpResponse& answer) {
  const auto tag = answer.header("etag");
  const auto modified = seconds_of_http_date(answer.header("last-modified"));
  if ((!tag.empty() && tag != object.tag) || (modified != 0 && modified != object.modified))
    throw changed_error(place);
}

void verify_encoding(const HttpPlace& place, const HttpResponse& answer) {
  const auto encoding = answer.header("content-encoding");
  if (!encoding.empty() && encoding != "identity")
    throw refused_error(place, fmt::format("the server sends it with 'Content-Encoding: {}', which "
                                           "is not supported",
                                           printable(encoding, 40)));
}

HttpHeaders headers_of_read(const ObjectInfo& object, bool compares) {
  auto headers = without_encoding();
  if (compares && is_strong_tag(object.tag)) headers["If-Match"] = object.tag;
  return headers;
}

}  // namespace

HttpFiles::HttpFiles(Options options) : options_(std::move(options)) {}

std::unique_ptr<HttpClient> HttpFiles::take_client(const std::string& origin,
                                                   const HttpAddress& address) {
  {
    const MutexLock lock(mutex_);
    // The newest: its connection is the least likely to be closed.
    for (auto idle = idle_.rbegin(); idle != idle_.rend(); ++idle) {
      if (idle->first != origin) continue;
      auto client = std::move(idle->second);
      idle_.erase(std::next(idle).base());
      return client;
    }
  }
  HttpOptions http;
  http.name = printable(origin, 200);
  http.timeout = std::chrono::milliseconds(static_cast<int64_t>(1e3 * options_.timeout_s));
  http.proxy = proxy_for(options_.proxies, address);
  const HttpAddress server{.tls = address.tls, .host = address.host, .port = address.port};
  return std::make_unique<HttpClient>(server, http);
}

void HttpFiles::give_back(const std::string& origin, std::unique_ptr<HttpClient> client) {
  std::unique_ptr<HttpClient> oldest;  // closed without the lock
  const MutexLock lock(mutex_);
  if (idle_.size() >= kMaxIdleClients) {
    oldest = std::move(idle_.front().second);
    idle_.pop_front();
  }
  idle_.emplace_back(origin, std::move(client));
}

// One answer, of which a redirect is not followed. The receiver gets the body if it is a success.
HttpResponse HttpFiles::request(const HttpPlace& place, const std::string& url,
                                const HttpHeaders& headers, const HttpReceiver& receiver) {
  const auto address = address_of(url, place);
  const auto origin = address.origin();
  auto sent = headers;
  if (!options_.token.empty() && origin == options_.token_origin)
    sent["Authorization"] = "Bearer " + options_.token;
  std::exception_ptr failure;
  bool is_success = false;
  // An exception must not pass through the client.
  const auto guarded = [&failure](const auto& act) {
    try {
      return act();
    } catch (...) {
      failure = std::current_exception();
      return false;
    }
  };
  const HttpReceiver guarded_receiver{
      .begin =
          [&](const HttpResponse& head) {
            is_success = head.ok();
            if (is_success) return guarded([&] { return receiver.begin(head); });
            // A short rest keeps the connection open.
            return length_of(head).value_or(kMaxDrainedBytes) < kMaxDrainedBytes;
          },
      .take =
          [&](std::string_view bytes) {
            return !is_success || guarded([&] { return receiver.take(bytes); });
          }};
  auto client = take_client(origin, address);
  HttpResponse response;
  try {
    response = client->get(path_and_query(url), sent, guarded_receiver);
  } catch (const Error& error) {
    if (failure) std::rethrow_exception(failure);
    if (error.kind() != ErrorKind::Config) throw temporary_error(place, error.what());
    const std::string text = error.what();
    const bool is_certificate = text.ends_with("certificate is not trusted");
    throw refused_error(
        place, text + (is_certificate ? ": set SSL_CERT_FILE to the file of its authority" : ""));
  }
  if (failure) std::rethrow_exception(failure);
  give_back(origin, std::move(client));
  return response;
}

HttpFiles::Answer HttpFiles::follow(const HttpPlace& place, std::string url,
                                    const HttpHeaders& headers, const HttpReceiver& receiver) {
  Answer answer;
  const auto own_origin = address_of(place.url, place).origin();
  for (int i = 0; i <= kMaxRedirects; ++i) {
    answer.response = request(place, url, headers, receiver);
    if (address_of(url, place).origin() == own_origin) answer.own = answer.response;
    answer.url = url;
    if (!is_redirect(answer.response)) return answer;
    const auto next = resolved_url(url, answer.response.header("location"));
    if (next.empty() || (url.starts_with("https://") && !next.starts_with("https://")))
      throw refused_error(place, "the server redirects to an address that is not https");
    url = next;
  }
  throw refused_error(place, fmt::format("more than {} redirects", kMaxRedirects));
}

HttpFiles::Answer HttpFiles::request_from_start(const HttpPlace& place, const HttpHeaders& headers,
                                                const HttpReceiver& receiver) {
  auto answer = follow(place, place.url, headers, receiver);
  if (answer.url == place.url || !answer.response.ok()) return answer;
  const MutexLock lock(mutex_);
  if (locations_.size() >= kMaxLocations) locations_.clear();
  locations_[place.url] = answer.url;
  return answer;
}

// Where an earlier request was redirected to, while that is valid.
void HttpFiles::request_again(const HttpPlace& place, const HttpHeaders& headers,
                              const HttpReceiver& receiver) {
  std::string known;
  {
    const MutexLock lock(mutex_);
    if (const auto found = locations_.find(place.url); found != locations_.end())
      known = found->second;
  }
  if (!known.empty()) {
    const auto forget = [&] {
      const MutexLock lock(mutex_);
      locations_.erase(place.url);
    };
    try {
      if (follow(place, known, headers, receiver).response.ok()) return;
    } catch (const StoreError&) {
      forget();
      throw;
    }
    forget();
  }
  const auto answer = request_from_start(place, headers, receiver);
  if (!answer.response.ok()) refuse(place, answer.response);
}

void HttpFiles::refuse(const HttpPlace& place, const HttpResponse& response) const {
  if (options_.explain)
    if (const auto known = options_.explain(place.shown, response)) throw *known;
  const auto status = response.status;
  if (status == 412 || status == 416) throw changed_error(place);
  if (status == 404 || status == 410)
    throw refused_error(place, "no such file", StoreFailure::NoKey);
  if (status == 401 || status == 403)
    throw refused_error(place, fmt::format("the server denies access (status {})", status),
                        StoreFailure::Denied);
  if (status == 407)
    throw refused_error(place, "the proxy needs a user and a password, http://user:password@host",
                        StoreFailure::Credentials);
  if (status == 408 || status == 429 || status >= 500)
    throw temporary_error(
        place, fmt::format("the server answered with status {}", status),
        seconds_of_retry_after(response.header("retry-after"), kMaxRetryAfterSeconds));
  throw refused_error(place, fmt::format("the server answered with status {}", status));
}

HttpFiles::Info HttpFiles::info(const HttpPlace& place) {
  auto headers = without_encoding();
  headers["Range"] = "bytes=0-0";
  const HttpReceiver receiver{.begin = [](const HttpResponse& head) { return head.status == 206; },
                              .take = [](std::string_view) { return true; }};
  auto answer = request_from_start(place, headers, receiver);
  // Of an empty file, or of a server that has no ranges and does not say so.
  if (answer.response.status == 416 && answer.response.header("content-range").empty()) {
    headers.erase("Range");
    answer = request_from_start(place, headers, receiver);
  }
  const auto& response = answer.response;
  const auto range = parse_content_range(response.header("content-range"));
  const bool is_empty = response.status == 416 && range && range->size == 0;
  if (!response.ok() && !is_empty) refuse(place, response);
  const bool is_redirected = answer.url != place.url;
  if (is_redirected && answer.url.substr(0, answer.url.find('?')).ends_with('/'))
    throw refused_error(place,
                        "is a folder, whose files cannot be listed over HTTP; valid: one file, "
                        "https://host/path",
                        StoreFailure::NoKey);
  if (is_redirected && response.header("content-type").starts_with("text/html"))
    throw refused_error(place, "the server redirects to a web page, perhaps to sign in",
                        StoreFailure::Denied);
  verify_encoding(place, response);
  Info info{.object = {.tag = response.header("etag")}, .own = answer.own};
  info.object.modified = seconds_of_http_date(response.header("last-modified"));
  if (is_empty) return info;
  info.object.has_ranges = response.status == 206;
  const auto size = info.object.has_ranges ? (range ? std::optional(range->size) : std::nullopt)
                                           : length_of(response);
  if (!size) throw refused_error(place, "the server does not say how large it is, which is needed");
  info.object.size = *size;
  return info;
}

void HttpFiles::read(const HttpPlace& place, const ObjectInfo& object, int64_t offset,
                     std::span<uint8_t> out, bool compares) {
  if (out.empty()) return;
  const auto last = offset + static_cast<int64_t>(out.size()) - 1;
  auto headers = headers_of_read(object, compares);
  headers["Range"] = fmt::format("bytes={}-{}", offset, last);
  size_t done = 0;
  const auto begin = [&](const HttpResponse& head) {
    done = 0;
    if (compares) verify_version(place, object, head);
    verify_encoding(place, head);
    const auto range = parse_content_range(head.header("content-range"));
    if (range && range->size != object.size) throw changed_error(place);
    if (head.status == 200) {
      if (length_of(head).value_or(object.size) != object.size) throw changed_error(place);
      if (std::cmp_equal(out.size(), object.size)) return true;
      throw StoreError(StoreFailure::NoRanges, ErrorKind::Environment,
                       place.shown + ": the server sent the whole file instead of a range");
    }
    if (head.status != 206 || !range || range->first != offset || range->last != last)
      throw temporary_error(place, "the server did not send the range of bytes that was requested");
    return true;
  };
  const auto take = [&](std::string_view bytes) {
    const auto count = std::min(bytes.size(), out.size() - done);
    std::copy_n(reinterpret_cast<const uint8_t*>(bytes.data()), count, out.data() + done);
    done += count;
    return count == bytes.size();
  };
  request_again(place, headers, {.begin = begin, .take = take});
  if (done != out.size())
    throw temporary_error(
        place, fmt::format("{} bytes instead of {} from byte {} on", done, out.size(), offset));
}

void HttpFiles::read_whole(const HttpPlace& place, const ObjectInfo& object, const TakeBytes& take,
                           bool compares) {
  int64_t done = 0;
  const auto begin = [&](const HttpResponse& head) {
    if (compares) verify_version(place, object, head);
    verify_encoding(place, head);
    if (length_of(head).value_or(object.size) != object.size) throw changed_error(place);
    return true;
  };
  const auto take_some = [&](std::string_view bytes) {
    done += static_cast<int64_t>(bytes.size());
    if (done > object.size) throw changed_error(place);
    take({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
    return true;
  };
  request_again(place, headers_of_read(object, compares), {.begin = begin, .take = take_some});
  if (done != object.size)
    throw temporary_error(place, fmt::format("{} bytes instead of {}", done, object.size));
}

HttpResponse HttpFiles::text(const HttpPlace& place) {
  std::string body;
  const auto take = [&](std::string_view bytes) {
    if (body.size() + bytes.size() > kMaxTextBytes)
      throw refused_error(place, "the server's answer is too large");
    body.append(bytes);
    return true;
  };
  auto answer = follow(place, place.url, without_encoding(),
                       {.begin =
                            [&](const HttpResponse&) {
                              body.clear();
                              return true;
                            },
                        .take = take});
  if (!answer.response.ok()) refuse(place, answer.response);
  answer.response.body = std::move(body);
  return answer.response;
}

}  // namespace lockstep::formats
