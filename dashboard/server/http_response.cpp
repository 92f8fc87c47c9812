#include "dashboard/server/http_response.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>

#include "lockstep/error.h"

namespace lockstep::dashboard {
namespace {

// What fits into one packet is not worth the work, and what is huge would be in memory twice.
constexpr size_t kMinPackedBytes = 1400, kMaxPackedBytes = 64u << 20;
constexpr int kGzipWindow = MAX_WBITS + 16, kDefaultMemory = 8;  // 16: with gzip's head

bool takes_gzip(const httplib::Request& request) {
  return request.get_header_value("Accept-Encoding").find("gzip") != std::string::npos;
}

// Any name is safe in a header: what could end it or its quotes is left out.
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
        std::vector<char> piece(std::min<size_t>(length, 256u << 10));
        const auto count =
            ::pread(file->get(), piece.data(), piece.size(), static_cast<off_t>(offset));
        return count > 0 && sink.write(piece.data(), static_cast<size_t>(count));
      });
}

// By a provider, because the library would pack any other text itself: with Brotli at its slowest,
// which takes longer than anything else that the dashboard does.
void send_text(std::string text, httplib::Response& response, const std::string& type) {
  const auto shared = std::make_shared<const std::string>(std::move(text));
  response.set_content_provider(
      shared->size(), type, [shared](size_t offset, size_t length, httplib::DataSink& sink) {
        return sink.write(shared->data() + offset, std::min(length, shared->size() - offset));
      });
}

// One gzip member, made at zlib's quickest.
std::string gzip_text(std::string_view text) {
  z_stream stream{};
  const int begun = ::deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow, kDefaultMemory,
                                   Z_DEFAULT_STRATEGY);
  check(begun == Z_OK, "zlib begins");
  std::string packed(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int ended = ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  check(ended == Z_STREAM_END, "zlib packs a whole text");
  return packed;
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
  const bool packed = takes_gzip(request);
  if (packed) response.set_header("Content-Encoding", "gzip");
  const auto body = packed ? asset.compressed : asset.body;
  response.set_content_provider(body.size(), std::string(asset.type),
                                [body](size_t offset, size_t length, httplib::DataSink& sink) {
                                  return sink.write(body.data() + offset,
                                                    std::min(length, body.size() - offset));
                                });
}

void send(ApiResponse answer, const httplib::Request& request, httplib::Response& response) {
  response.status = answer.status;
  response.set_header("Cache-Control", "no-store");
  if (answer.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  if (!answer.download.empty())
    response.set_header("Content-Disposition", attachment(answer.download));
  if (answer.file.file) return send_file(answer.file, response, answer.type);
  // The library's handler of errors looks for their text in the answer itself.
  if (answer.status >= 400 || answer.body.empty())
    return response.set_content(answer.body, answer.type);
  const bool packed = takes_gzip(request) && answer.download.empty() &&
                      answer.body.size() > kMinPackedBytes &&
                      answer.body.size() <= kMaxPackedBytes;
  if (packed) {
    response.set_header("Content-Encoding", "gzip");
    answer.body = gzip_text(answer.body);
  }
  send_text(std::move(answer.body), response, answer.type);
}

}  // namespace lockstep::dashboard
