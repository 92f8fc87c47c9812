#include "formats/store/hub_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/http/http_client.h"
#include "core/number_text.h"
#include "core/system/mutex.h"
#include "formats/store/http_files.h"
#include "formats/store/http_values.h"
#include "formats/store/read_only_store.h"

namespace lockstep::formats {
namespace {

constexpr size_t kFilesPerPage = 1000;
constexpr int kMaxPages = 10'000;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 50;

bool is_commit(const std::string& revision) {
  return revision.size() == 40 && std::ranges::all_of(revision, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// As in a path, for the path of a URL: %XX is kept, and a slash becomes %2F.
std::string quoted_revision(const std::string& revision) {
  std::string quoted;
  for (const char c : revision) quoted += c == '%' ? "%" : percent_encoded({&c, 1});
  return quoted;
}

// W/"abc" -> abc
std::string normalized_tag(std::string tag) {
  if (tag.starts_with("W/")) tag.erase(0, 2);
  std::erase(tag, '"');
  return tag;
}

// What the answers of the server to this user mean.
class HubErrors {
 public:
  explicit HubErrors(const BucketOptions& options)
      : endpoint_(printable(options.endpoint, 200)),
        repository_(printable(options.bucket.substr(0, options.bucket.find('@')), 200)),
        token_source_(options.token.empty() ? "" : options.token_source) {}

  std::optional<StoreError> explain(const std::string& shown, const HttpResponse& answer) const {
    const auto code = answer.header("x-error-code"), message = answer.header("x-error-message");
    const auto refused = [&](StoreFailure failure, const std::string& why) {
      return StoreError(failure, ErrorKind::Config, shown + ": " + why);
    };
    if (code == "EntryNotFound") return refused(StoreFailure::NoKey, "no such file");
    if (code == "RevisionNotFound") return refused(StoreFailure::NoBucket, "no such revision");
    if (code == "GatedRepo")
      return refused(StoreFailure::Denied,
                     fmt::format("the repository is gated: accept its terms at {}/{}{}", endpoint_,
                                 repository_, with_token()));
    if (message == "Access to this resource is disabled.")
      return refused(StoreFailure::Denied, "the server has disabled access to this repository");
    if (answer.status == 401 && message == "Invalid credentials in Authorization header")
      return refused(StoreFailure::Credentials,
                     fmt::format("the token from {} is not valid", token_source_));
    if (code == "RepoNotFound" || answer.status == 401)
      return refused(StoreFailure::NoBucket, "no such repository, or it is private" + with_token());
    if (message.empty() || answer.status == 429 || answer.status >= 500) return std::nullopt;
    return refused(answer.status == 404 ? StoreFailure::NoKey : StoreFailure::Other,
                   fmt::format("status {}: {}", answer.status, printable(message, 200)));
  }

 private:
  std::string with_token() const {
    if (token_source_.empty()) return "; there is no token: set HF_TOKEN";
    return "; the token is that from " + token_source_;
  }

  const std::string endpoint_, repository_, token_source_;
};

StoreError listing_error(const std::string& shown, const std::string& why) {
  return {StoreFailure::Other, ErrorKind::Environment,
          fmt::format("{}: the server's listing is not valid: {}", shown, why)};
}

// Whether a key of a listing is that of a file below a prefix, in a normal form.
bool is_below(std::string_view key, const std::string& prefix) {
  if (!prefix.empty() && !key.starts_with(prefix + "/")) return false;
  for (;;) {
    const auto slash = key.find('/');
    const auto part = key.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == key.npos) return true;
    key.remove_prefix(slash + 1);
  }
}

void verify_token(const BucketOptions& options) {
  if (std::ranges::any_of(options.token, [](unsigned char c) { return c <= ' ' || c >= 0x7f; }))
    throw config_error(options.token_source +
                       ": not a token: it contains spaces, line breaks or other characters");
}

HttpFiles::Options options_of_files(const BucketOptions& options) {
  const auto address = parse_http_address(options.endpoint, "HF_ENDPOINT");
  return {.timeout_s = options.timeout_s,
          .token = options.token,
          .token_origin = address.origin(),
          .proxies = options.proxies,
          .explain = [errors = HubErrors(options)](const std::string& shown,
                                                   const HttpResponse& answer) {
            return errors.explain(shown, answer);
          }};
}

class HubStore final : public ReadOnlyStore {
 public:
  explicit HubStore(const BucketOptions& options)
      : endpoint_(options.endpoint),
        origin_(parse_http_address(endpoint_, "HF_ENDPOINT").origin()),
        place_(options.bucket),
        repository_(options.bucket.substr(0, options.bucket.find('@'))),
        files_(options_of_files(options)) {
    const auto at = place_.find('@');
    revision_ = at == place_.npos ? "main" : place_.substr(at + 1);
    if (is_commit(revision_)) commit_ = revision_;
  }

  ObjectInfo info(const std::string& key) override {
    auto [object, own] = files_.info(file_at(key));
    object.key = key;
    // The content can be on another server, with another tag.
    const auto linked = own.header("x-linked-etag");
    object.tag = normalized_tag(linked.empty() ? own.header("etag") : linked);
    if (object.tag.empty()) object.tag = pinned();
    object.modified = 0;
    const auto size = parse_number<int64_t>(own.header("x-linked-size"));
    if (size && *size != object.size)
      throw StoreError(StoreFailure::Temporary, ErrorKind::Environment,
                       fmt::format("{}: the server of the content has {} bytes, the repository {}",
                                   printable(path_of(key), 400), object.size, *size));
    return object;
  }

  std::vector<ObjectInfo> list(const std::string& prefix, size_t limit) override {
    const auto shown = printable(path_of(prefix), 400);
    auto url = fmt::format("{}/api/{}/tree/{}{}{}?recursive=true&limit={}", endpoint_, repository_,
                           pinned(), prefix.empty() ? "" : "/", percent_encoded(prefix, true),
                           std::clamp<size_t>(limit, 1, kFilesPerPage));
    std::vector<ObjectInfo> found;
    for (int page = 0; page < kMaxPages && !url.empty() && found.size() < limit; ++page) {
      HttpResponse answer;
      try {
        answer = files_.text({url, shown});
      } catch (const StoreError& error) {
        if (error.failure() == StoreFailure::NoKey && page == 0) return {};
        throw;
      }
      for (auto& file : files_of_hub_page(answer.body, shown))
        if (found.size() < limit) found.push_back(std::move(file));
      url = next_page(url, answer, shown);
    }
    if (!url.empty() && found.size() < limit) throw listing_error(shown, "it does not end");
    for (const auto& file : found)
      if (!is_below(file.key, prefix))
        throw listing_error(shown, fmt::format("it contains '{}'", printable(file.key, 200)));
    return found;
  }

  void read(const ObjectInfo& object, int64_t offset, std::span<uint8_t> out) override {
    files_.read(file_at(object.key), object, offset, out, false);
  }
  void read_whole(const ObjectInfo& object, const TakeBytes& take) override {
    files_.read_whole(file_at(object.key), object, take, false);
  }

  std::string commit() const override {
    const MutexLock lock(mutex_);
    return commit_;
  }

 private:
  std::string path_of(const std::string& key) const override {
    return "hf://" + place_ + (key.empty() ? "" : "/" + key);
  }

  // Empty: there are no more. Throws if what the server says about them cannot be right.
  std::string next_page(const std::string& url, const HttpResponse& answer,
                        const std::string& shown) const {
    const auto link = next_link(answer.header("link"));
    if (link.empty()) return {};
    const auto next = resolved_url(url, link);
    if (next.empty() || next == url) throw listing_error(shown, "its next page has no address");
    if (parse_http_address(next, shown).origin() != origin_)
      throw listing_error(shown, "its next page is on another server");
    return next;
  }

  HttpPlace file_at(const std::string& key) {
    return {fmt::format("{}/{}/resolve/{}/{}", endpoint_, repository_, pinned(),
                        percent_encoded(key, true)),
            printable(path_of(key), 400)};
  }

  // The commit of the revision.
  std::string pinned() {
    const MutexLock resolving(resolving_);
    if (auto known = commit(); !known.empty()) return known;
    const HttpPlace place{
        fmt::format("{}/api/{}/revision/{}", endpoint_, repository_, quoted_revision(revision_)),
        printable(path_of(""), 400)};
    const auto json = nlohmann::json::parse(files_.text(place).body, nullptr, false);
    const auto sha = json.is_object() ? json.find("sha") : json.end();
    if (!json.is_object() || sha == json.end() || !sha->is_string() ||
        !is_commit(sha->get<std::string>()))
      throw StoreError(StoreFailure::Other, ErrorKind::Environment,
                       place.shown + ": the server does not say which commit this is");
    const MutexLock lock(mutex_);
    return commit_ = sha->get<std::string>();
  }

  const std::string endpoint_, origin_, place_, repository_;
  std::string revision_;  // as in the path
  HttpFiles files_;
  Mutex resolving_;  // during a request; mutex_ is not
  mutable Mutex mutex_;
  std::string commit_ GUARDED_BY(mutex_);  // empty: not known yet
};

}  // namespace

std::unique_ptr<ObjectStore> open_hub_store(const BucketOptions& options) {
  verify_token(options);
  return std::make_unique<HubStore>(options);
}

std::vector<ObjectInfo> files_of_hub_page(std::string_view text, const std::string& where) {
  const auto refused = [&] { return listing_error(where, "not the JSON of a hub"); };
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array()) throw refused();
  std::vector<ObjectInfo> files;
  for (const auto& entry : json) {
    if (!entry.is_object()) throw refused();
    const auto type = entry.find("type"), path = entry.find("path"), size = entry.find("size");
    if (type == entry.end() || !type->is_string()) throw refused();
    if (*type != "file") continue;
    if (path == entry.end() || !path->is_string() || path->get_ref<const std::string&>().empty() ||
        size == entry.end() || !size->is_number_unsigned() || size->get<uint64_t>() > kMaxFileBytes)
      throw refused();
    files.push_back({.key = path->get<std::string>(), .size = size->get<int64_t>()});
  }
  return files;
}

}  // namespace lockstep::formats
