// Arbitrary bytes of an HTTP server: headers, and listings of a hub. The first byte chooses what they
// are. Values that are found keep their promises, and a listing is files or an Environment error.
#include <cstdlib>

#include "core/http/http_client.h"
#include "core/http/raw_header_client.h"
#include "formats/store/http_values.h"
#include "formats/store/hub_store.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace {

using namespace lockstep;

void require(bool condition) {
  if (!condition) std::abort();
}

void read_range(const std::string& text) {
  const auto range = formats::parse_content_range(text);
  require(!range || (range->first >= 0 && range->last < std::max<int64_t>(range->size, 1)));
}

void read_location(const std::string& text) {
  for (const auto* page : {"https://host/a/b?c=d", "http://[::1]:80"}) {
    const auto url = formats::resolved_url(page, text);
    if (url.empty()) continue;
    require(url.starts_with("https://") || url.starts_with("http://"));
    require(url.find_first_of(" \t\r\n#") == url.npos);
    require(formats::resolved_url(page, url) == url);
  }
}

// The header does not depend on how its bytes arrive.
void read_header(const std::string& text) {
  RawHeader whole, parts;
  whole.add(text);
  for (const auto c : text) parts.add({&c, 1});
  require(whole.is_complete == parts.is_complete && whole.is_too_long == parts.is_too_long);
  require(whole.text == parts.text && !(whole.is_complete && whole.is_too_long));
}

void read_page(const std::string& text) {
  try {
    for (const auto& file : formats::files_of_hub_page(text, "input"))
      require(!file.key.empty() && file.size >= 0);
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::Environment);
  }
}

}  // namespace

std::vector<std::string> lockstep::fuzz_seeds() {
  return {
      "0bytes 0-99/1000",
      "0bytes */0",
      "1https://host:8443/x?y=%2B#z",
      "1../../a/./b",
      "1//other/x y",
      "1?only=query",
      "2<https://host/api?cursor=a%3D>; rel=\"next\", <https://host/>; rel=\"first\"",
      "3Wed, 25 Nov 2026 22:00:00 GMT",
      "4HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nETag: \"a\"\r\n\r\nbody",
      R"(5[{"type": "file", "path": "a/b", "size": 3, "lfs": {"size": 3}}, {"type": "directory"}])"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(data + 1, data + size);
  switch (data[0]) {
    case '0': read_range(text); break;
    case '1': read_location(text); break;
    case '2': require(text.find(formats::next_link(text)) != text.npos); break;
    case '3': require(seconds_of_http_date(text) >= 0); break;
    case '4': read_header(text); break;
    default: read_page(text);
  }
  return 0;
}
