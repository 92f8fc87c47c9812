#include "dashboard/server/http_response.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/http/gzip_body.h"
#include "core/number_text.h"

namespace lockstep::dashboard {
namespace {

// A smaller body fits into one packet; a larger one would be in memory twice.
constexpr size_t kMinCompressedBytes = 1400, kMaxCompressedBytes = 64u << 20;

bool accepts_gzip(const httplib::Request& request) {
  return request.get_header_value("Accept-Encoding").find("gzip") != std::string::npos;
}

// Any name is safe: characters that could end the header or its quotes are replaced.
std::string attachment(const std::string& name) {
  std::string plain;
  for (const char c : name)
    plain += c >= 0x20 && c < 0x7F && c != '"' && c != '\\' && c != '/' ? c : '_';
  return fmt::format("attachment; filename=\"{}\"", plain);
}

void send_file(const catalog::InnerFile& file, httplib::Response& response,
               const std::string& type) {
  response.set_content_provider(
      file.bytes, type, [file = file.file](size_t offset, size_t length, httplib::DataSink& sink) {
        std::vector<char> buffer(std::min<size_t>(length, 256u << 10));
        const auto count =
            ::pread(file->get(), buffer.data(), buffer.size(), static_cast<off_t>(offset));
        return count > 0 && sink.write(buffer.data(), static_cast<size_t>(count));
      });
}

// With a content provider, because the library compresses other bodies itself: with Brotli at its
// slowest setting, which would dominate the response time.
void send_text(std::string text, httplib::Response& response, const std::string& type) {
  const auto shared = std::make_shared<const std::string>(std::move(text));
  response.set_content_provider(
      shared->size(), type, [shared](size_t offset, size_t length, httplib::DataSink& sink) {
        return sink.write(shared->data() + offset, std::min(length, shared->size() - offset));
      });
}

// A page of a run, also if it is opened outside of the dashboard: in an origin that no other page has,
// without cookies, storage, windows and connections. In a tab, it can still lead to another page.
constexpr const char* kSandboxPolicy =
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'unsafe-inline'; img-src data: blob:; media-src data: blob:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; webrtc 'block'";

// Instead of the headers of the dashboard.
void set_sandbox(httplib::Response& response) {
  const std::array<std::pair<const char*, const char*>, 2> headers = {
      {{"Content-Security-Policy", kSandboxPolicy}, {"X-Frame-Options", "SAMEORIGIN"}}};
  for (const auto& [name, value] : headers) {
    response.headers.erase(name);
    response.set_header(name, value);
  }
  response.headers.erase("Cross-Origin-Opener-Policy");  // browsers show no sandboxed page with it
}

struct ByteRange {
  size_t begin = 0, length = 0;  // length 0: the body has none of the requested bytes
};

// Of "bytes=10-19", "bytes=10-" or "bytes=-10" and a body of `size` bytes. nullopt: send all of it,
// as for several ranges, which the server may ignore (RFC 9110, section 14.2).
std::optional<ByteRange> requested_range(std::string_view header, size_t size) {
  constexpr std::string_view kUnit = "bytes=";
  if (!header.starts_with(kUnit)) return std::nullopt;
  header.remove_prefix(kUnit.size());
  const auto dash = header.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = parse_number<uint64_t>(header.substr(0, dash));
  const auto last = parse_number<uint64_t>(header.substr(dash + 1));
  if (dash == 0 && last) {
    const auto length = std::min<uint64_t>(*last, size);
    return ByteRange{size - length, length};
  }
  const bool has_end = dash + 1 < header.size();
  if (!first || (has_end && (!last || *last < *first))) return std::nullopt;
  if (*first >= size) return ByteRange{};
  return ByteRange{*first, (has_end ? std::min<uint64_t>(*last, size - 1) + 1 : size) - *first};
}

// Sounds and videos, of which players request ranges.
void send_media(std::string body, const httplib::Request& request, httplib::Response& response,
                const std::string& type) {
  response.set_header("Accept-Ranges", "bytes");
  const auto range = requested_range(request.get_header_value("Range"), body.size());
  if (!range) return send_text(std::move(body), response, type);
  if (range->length == 0) {
    response.status = 416;
    response.set_header("Content-Range", fmt::format("bytes */{}", body.size()));
    const auto error = ApiError(416, "bad_range", "the range begins after the last byte");
    return response.set_content(error.response().body, "application/json");
  }
  response.status = 206;
  response.set_header("Content-Range", fmt::format("bytes {}-{}/{}", range->begin,
                                                   range->begin + range->length - 1, body.size()));
  send_text(body.substr(range->begin, range->length), response, type);
}

}  // namespace

void send_asset(const Asset& asset, const httplib::Request& request, httplib::Response& response) {
  response.set_header("ETag", std::string(asset.tag));
  response.set_header("Cache-Control", "no-cache");
  response.set_header("Vary", "Accept-Encoding");
  if (request.get_header_value("If-None-Match") == asset.tag) {
    response.status = 304;
    return;
  }
  const bool compressed = accepts_gzip(request);
  if (compressed) response.set_header("Content-Encoding", "gzip");
  const auto body = compressed ? asset.compressed : asset.body;
  response.set_content_provider(body.size(), std::string(asset.type),
                                [body](size_t offset, size_t length, httplib::DataSink& sink) {
                                  return sink.write(body.data() + offset,
                                                    std::min(length, body.size() - offset));
                                });
}

void send(ApiResponse api_response, const httplib::Request& request, httplib::Response& response) {
  response.status = api_response.status;
  response.set_header("Cache-Control", "no-store");
  if (api_response.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  if (!api_response.download.empty())
    response.set_header("Content-Disposition", attachment(api_response.download));
  if (api_response.is_sandboxed) set_sandbox(response);
  if (api_response.file.file) return send_file(api_response.file, response, api_response.type);
  // The error handler checks Response::body, which a content provider would leave empty.
  auto& body = api_response.body;
  if (api_response.status >= 400 || body.empty())
    return response.set_content(body, api_response.type);
  if (api_response.type.starts_with("audio/") || api_response.type.starts_with("video/"))
    return send_media(std::move(body), request, response, api_response.type);
  const bool compressed = accepts_gzip(request) && api_response.download.empty() &&
                          body.size() > kMinCompressedBytes && body.size() <= kMaxCompressedBytes;
  if (compressed) {
    response.set_header("Content-Encoding", "gzip");
    body = gzip_body(body);
  }
  send_text(std::move(body), response, api_response.type);
}

}  // namespace lockstep::dashboard
