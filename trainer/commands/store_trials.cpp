#include "trainer/commands/store_trials.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <random>

#include "core/config/size_text.h"
#include "core/http/http_client.h"
#include "core/printable.h"
#include "lockstep/error.h"
#include "tracking/log/unix_time.h"
#include "trainer/commands/credentials_source.h"

namespace lockstep::trainer {
namespace {

using formats::ObjectInfo;
using formats::StoreError;
using formats::StoreFailure;
using formats::StoreKind;
using TrialClock = std::chrono::steady_clock;

constexpr size_t kSmallObject = 1024, kMaxPage = 64 << 10, kLargeObject = size_t{32} << 20;
constexpr int64_t kRangeBytes = int64_t{8} << 20;
constexpr std::chrono::seconds kRepeatFor{3}, kMaxUpload{10};
constexpr size_t kCountedObjects = 1000, kNumPings = 3;
// Servers accept signatures of the last and next 15 minutes.
constexpr double kClockWarning = 60, kClockLimit = 15 * 60;

double seconds_from(TrialClock::time_point begin) {
  return std::chrono::duration<double>(TrialClock::now() - begin).count();
}

std::string url_of_server(const formats::BucketOptions& options) {
  if (!formats::is_bucket(options.kind)) return options.endpoint;
  if (options.kind == StoreKind::Azure && options.endpoint.starts_with("blob."))
    return fmt::format("{}://{}.{}", options.scheme, options.account, options.endpoint);
  if (!options.endpoint.empty()) return options.scheme + "://" + options.endpoint;
  if (options.region.empty()) return "https://s3.amazonaws.com";
  return fmt::format("https://s3.{}.amazonaws.com{}", options.region,
                     options.region.starts_with("cn-") ? ".cn" : "");
}

// Bytes that cannot be compressed.
std::vector<uint8_t> random_bytes(size_t size) {
  std::mt19937_64 random(std::random_device{}());
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i + 8 <= size; i += 8) {
    const uint64_t word = random();
    std::copy_n(reinterpret_cast<const uint8_t*>(&word), 8, bytes.begin() + static_cast<long>(i));
  }
  return bytes;
}

std::string speed_of(size_t bytes, double seconds) {
  const auto rate = static_cast<double>(bytes) / 1e6 / std::max(seconds, 1e-6);
  return fmt::format("{:.{}f} MB/s", rate, rate < 10 ? 1 : 0);
}

bool is_about_credentials(const std::optional<StoreError>& error) {
  return error &&
         (error->failure() == StoreFailure::Credentials ||
          error->failure() == StoreFailure::Expired || error->failure() == StoreFailure::Clock);
}

// Of an endpoint that does not answer.
const char* remedy_of(StoreKind kind, bool is_certificate) {
  if (kind == StoreKind::S3)
    return is_certificate ? "set AWS_CA_BUNDLE to the file of its authority"
                          : "is AWS_ENDPOINT_URL or ?endpoint_override= the right server, and "
                            "does a firewall permit it?";
  if (is_certificate) return "set SSL_CERT_FILE to the file of its authority";
  return kind == StoreKind::Hub ? "is HF_ENDPOINT the right server, and does a firewall permit it?"
                                : "is this the right server, and does a firewall permit it?";
}

Finding not_permitted(const char* what, const std::string& consequence) {
  return {what, Health::Warning, "not permitted: " + consequence};
}

}  // namespace

std::span<const StoreTrials::Trial> StoreTrials::all() {
  static constexpr Trial kTrials[] = {{"endpoint", &StoreTrials::try_endpoint},
                                      {"clock", &StoreTrials::compare_clocks},
                                      {"credentials", &StoreTrials::try_credentials},
                                      {"list", &StoreTrials::try_list},
                                      {"write", &StoreTrials::try_write},
                                      {"read", &StoreTrials::try_read},
                                      {"upload", &StoreTrials::try_upload},
                                      {"download", &StoreTrials::try_download},
                                      {"delete", &StoreTrials::try_delete}};
  return kTrials;
}

StoreTrials::StoreTrials(const formats::StorePath& place)
    : place_(place),
      options_(formats::options_of_store(place)),
      retries_(kRepeatFor),
      url_(url_of_server(options_)) {}

std::optional<Finding> StoreTrials::run(const Trial& trial) {
  if (is_stopped_) return std::nullopt;
  try {
    return (this->*trial.run)();
  } catch (const std::exception& error) {
    return Finding{trial.what, Health::Problem, printable(error.what(), 600)};
  }
}

std::string StoreTrials::path_of(const std::string& key) const {
  return printable(formats::StorePath{place_.bucket, key, place_.scheme}.path().string(), 400);
}

std::optional<Finding> StoreTrials::try_endpoint() {
  is_pointless_ = true;
  const auto shown = printable(url_, 200);
  HttpOptions http;
  http.name = shown;
  http.timeout = std::chrono::milliseconds(static_cast<int64_t>(1e3 * options_.timeout_s));
  http.ca_file = options_.ca_file;
  http.proxy = proxy_for(options_.proxies, parse_http_address(url_, shown));
  double fastest = INFINITY;
  try {
    HttpClient client(parse_http_address(url_, shown), http);
    size_t size = 0;
    const HttpReceiver receiver{.begin = [](const HttpResponse&) { return true; },
                                .take =
                                    [&](std::string_view bytes) {
                                      size += bytes.size();
                                      return size < kMaxPage;
                                    }};
    for (size_t i = 0; i < kNumPings; ++i) {
      const auto begin = TrialClock::now();
      const auto before = tracking::unix_now();
      size = 0;
      date_ = client.get("/", {}, receiver).header("date");
      answered_ = (before + tracking::unix_now()) / 2;
      fastest = std::min(fastest, seconds_from(begin));
    }
  } catch (const Error& error) {
    const auto* remedy = remedy_of(options_.kind, error.kind() == ErrorKind::Config);
    return Finding{"endpoint", Health::Problem, fmt::format("{}; {}", error.what(), remedy)};
  }
  is_pointless_ = false;
  return Finding{"endpoint", Health::Good,
                 fmt::format("{} answers in {:.1f} ms", shown, 1e3 * fastest)};
}

std::optional<Finding> StoreTrials::compare_clocks() {
  if (!is_bucket()) return std::nullopt;
  const auto time = seconds_of_http_date(date_);
  if (time == 0) return Finding{"clock", Health::Warning, "not compared: the server sends no time"};
  const auto ahead = answered_ - (static_cast<double>(time) + 0.5);  // the header has whole seconds
  if (std::abs(ahead) < 2)
    return Finding{"clock", Health::Good, "differs from the server's by less than 2 s"};
  const auto found =
      fmt::format("{:.0f} s {} the server's", std::abs(ahead), ahead > 0 ? "ahead of" : "behind");
  if (std::abs(ahead) < kClockWarning) return Finding{"clock", Health::Good, found};
  if (std::abs(ahead) < kClockLimit)
    return Finding{"clock", Health::Warning,
                   found + ": synchronize it (NTP); from 15 min on, requests are refused"};
  return Finding{"clock", Health::Problem,
                 found + ": synchronize it (NTP); servers refuse requests from 15 min on"};
}

// Lists the prefix, and remembers the error.
void StoreTrials::list() {
  if (options_.kind == StoreKind::Http) return;  // cannot be listed
  try {
    listed_ = retries_.run([&] { return store_->list(place_.key, kCountedObjects); });
    // A missing bucket has no objects below a prefix.
    if (listed_.empty() && !place_.key.empty()) try {
        store_->verify_listing("");
      } catch (const StoreError& error) {
        if (error.failure() == StoreFailure::NoBucket) throw;
      }
  } catch (const StoreError& error) {
    list_error_ = error;
  }
}

// Of a hub, Google or Azure.
Finding StoreTrials::try_identity() {
  list();
  const bool is_hub = options_.kind == StoreKind::Hub;
  const auto shown = source_of_identity(options_);
  is_pointless_ = is_about_credentials(list_error_);
  if (is_pointless_)
    return {"credentials", Health::Problem,
            (is_hub ? "" : shown + ": ") + printable(list_error_->what(), 600)};
  const bool is_accepted =
      !list_error_ || (!is_hub && (list_error_->failure() == StoreFailure::Denied ||
                                   list_error_->failure() == StoreFailure::NoBucket));
  if (!is_accepted)
    return {"credentials", Health::Warning, shown + ": not verified, see the next line"};
  const bool is_used = !options_.is_anonymous && !(is_hub && options_.token.empty());
  return {"credentials", Health::Good, shown + (is_used ? ": accepted" : "")};
}

std::optional<Finding> StoreTrials::try_credentials() {
  is_pointless_ = true;
  store_ = formats::open_object_store(options_);
  if (options_.kind == StoreKind::Http) {
    is_pointless_ = false;
    return std::nullopt;
  }
  if (options_.kind != StoreKind::S3) return try_identity();
  const auto id = options_.is_anonymous ? "" : store_->access_key_id();
  if (!options_.is_anonymous && id.empty())
    return Finding{"credentials", Health::Problem,
                   "none: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; a "
                   "public bucket needs ?anonymous=true"};
  list();
  if (options_.is_anonymous) {
    is_pointless_ = false;
    return Finding{"credentials", Health::Good, "not used (?anonymous=true)"};
  }
  const auto shown = fmt::format("key {}{}, from {}", id.size() > 4 ? "..." : "",
                                 printable(id.substr(id.size() - std::min<size_t>(4, id.size()))),
                                 source_of_credentials(id));
  if (is_about_credentials(list_error_))
    return Finding{"credentials", Health::Problem,
                   fmt::format("{}: {}", shown, printable(list_error_->what(), 600))};
  is_pointless_ = false;
  if (list_error_ && list_error_->failure() != StoreFailure::Denied &&
      list_error_->failure() != StoreFailure::NoBucket)
    return Finding{"credentials", Health::Warning, shown + ": not verified, see the next line"};
  return Finding{"credentials", Health::Good, shown + ": accepted"};
}

Finding StoreTrials::listed(const std::string& text) const {
  return {"list", Health::Good, fmt::format("{} {}", path_of(place_.key), text)};
}

std::optional<Finding> StoreTrials::try_list() {
  if ((list_error_ || listed_.empty()) && !place_.key.empty()) try {
      readable_ = retries_.run([&] { return store_->info(place_.key); });
      is_object_ = true;
    } catch (const StoreError& error) {
      // Otherwise, the error of the listing is the one to report.
      if (options_.kind == StoreKind::Http) list_error_ = error;
    }
  if (is_object_)
    return listed("is an object of " + size_text(static_cast<uint64_t>(readable_->size)));
  if (list_error_) {
    is_pointless_ = list_error_->failure() == StoreFailure::NoBucket;
    return Finding{"list", Health::Problem, printable(list_error_->what(), 600)};
  }
  const auto largest = std::ranges::max_element(listed_, {}, &ObjectInfo::size);
  if (largest == listed_.end()) return listed("has no objects");
  if (largest->size > 0) readable_ = *largest;
  return listed(fmt::format("has {}{} object{}",
                            listed_.size() == kCountedObjects ? "at least " : "", listed_.size(),
                            listed_.size() == 1 ? "" : "s"));
}

std::optional<Finding> StoreTrials::try_write() {
  if (!is_bucket()) return std::nullopt;
  const auto slash = place_.key.rfind('/');
  auto folder = !is_object_                  ? place_.key
                : slash == std::string::npos ? ""
                                             : place_.key.substr(0, slash);
  if (!folder.empty()) folder += "/";
  key_ = fmt::format("{}.lockstep-doctor-{}-{:08x}", folder, ::getpid(), std::random_device{}());
  content_ = random_bytes(kSmallObject);
  may_exist_ = true;
  const auto begin = TrialClock::now();
  try {
    retries_.run([&] {
      bool is_sent = false;
      store_->write(key_, [&](std::span<uint8_t> out) -> size_t {
        if (std::exchange(is_sent, true)) return 0;
        std::ranges::copy(content_, out.begin());
        return content_.size();
      });
    });
  } catch (const StoreError& error) {
    if (error.failure() != StoreFailure::Denied) throw;
    may_exist_ = false;
    return not_permitted("write", "data can be read, but checkpoint.mirror needs this right");
  }
  is_written_ = true;
  readable_ = ObjectInfo{.key = key_, .size = static_cast<int64_t>(content_.size())};
  return Finding{"write", Health::Good,
                 fmt::format("an object of {} in {:.0f} ms", size_text(content_.size()),
                             1e3 * seconds_from(begin))};
}

std::vector<uint8_t> StoreTrials::read_range(const ObjectInfo& object, int64_t offset,
                                             int64_t size) {
  if (is_stopped_) throw environment_error("the process ends");
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  retries_.run([&] { store_->read(object, offset, bytes); });
  return bytes;
}

std::optional<Finding> StoreTrials::try_read() {
  if (!readable_)
    return Finding{"read", Health::Warning, "not tested, as there is no object that could be read"};
  if (!readable_->has_ranges) {
    readable_.reset();
    return Finding{"read", Health::Warning,
                   "the server sends whole files only: a file is fetched in one request, and from "
                   "the start again if the connection breaks"};
  }
  const auto begin = TrialClock::now();
  const auto size = std::min(readable_->size, static_cast<int64_t>(kSmallObject));
  const auto bytes = read_range(*readable_, 0, size);
  if (is_written_ && bytes != content_)
    return Finding{"read", Health::Problem, "the server returns other bytes than were written"};
  return Finding{"read", Health::Good,
                 fmt::format("{} of {} in {:.0f} ms", size_text(static_cast<uint64_t>(size)),
                             is_written_ ? "this object" : path_of(readable_->key),
                             1e3 * seconds_from(begin))};
}

// As checkpoints are uploaded: one part after the other.
std::optional<Finding> StoreTrials::try_upload() {
  if (!is_written_) return std::nullopt;
  readable_.reset();
  const auto content = random_bytes(kLargeObject);
  size_t sent = 0;
  const auto begin = TrialClock::now();
  store_->write(key_, [&](std::span<uint8_t> out) -> size_t {
    if (is_stopped_) throw environment_error("the process ends");
    if (TrialClock::now() - begin > kMaxUpload) return 0;
    const auto count = std::min(out.size(), content.size() - sent);
    std::copy_n(content.begin() + static_cast<long>(sent), count, out.begin());
    sent += count;
    return count;
  });
  const auto seconds = seconds_from(begin);
  content_.assign(content.begin(), content.begin() + static_cast<long>(sent));
  readable_ = ObjectInfo{.key = key_, .size = static_cast<int64_t>(sent)};
  return Finding{
      "upload", Health::Good,
      fmt::format("{}: {} in parts, one at a time", speed_of(sent, seconds), size_text(sent))};
}

// As data are fetched: ranges of an object in parallel.
std::optional<Finding> StoreTrials::try_download() {
  if (!readable_) return std::nullopt;
  const auto size = std::min(readable_->size, static_cast<int64_t>(kLargeObject));
  const auto begin = TrialClock::now();
  std::vector<std::future<std::vector<uint8_t>>> ranges;
  for (int64_t offset = 0; offset < size; offset += kRangeBytes)
    ranges.push_back(std::async(std::launch::async, [&, offset] {
      return read_range(*readable_, offset, std::min(kRangeBytes, size - offset));
    }));
  std::vector<uint8_t> bytes;
  for (auto& range : ranges) {
    const auto part = range.get();
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  const auto seconds = seconds_from(begin);
  if (is_written_ && bytes != content_)
    return Finding{"download", Health::Problem, "the server returns other bytes than were written"};
  return Finding{
      "download", Health::Good,
      fmt::format("{}: {} in {} range{} at a time", speed_of(bytes.size(), seconds),
                  size_text(bytes.size()), ranges.size(), ranges.size() == 1 ? "" : "s")};
}

std::optional<Finding> StoreTrials::try_delete() {
  if (!may_exist_) return std::nullopt;
  try {
    retries_.run([&] { store_->remove(key_); });
  } catch (const StoreError& error) {
    if (error.failure() != StoreFailure::Denied) throw;
    return not_permitted(
        "delete", fmt::format("{} remains; checkpoint.mirror needs this right", path_of(key_)));
  }
  try {
    (void)retries_.run([&] { return store_->info(key_); });
  } catch (const StoreError& error) {
    if (error.failure() != StoreFailure::NoKey) throw;
    may_exist_ = false;
    return Finding{"delete", Health::Good, "the object of these checks was removed"};
  }
  return Finding{"delete", Health::Problem,
                 path_of(key_) + " is still there, although the server removed it"};
}

std::string StoreTrials::object_that_may_exist() const { return may_exist_ ? path_of(key_) : ""; }

void StoreTrials::remove_quietly() {
  try {
    store_->remove(key_);
    may_exist_ = false;
  } catch (const std::exception&) {
    // The caller reports that it may exist.
  }
}

}  // namespace lockstep::trainer
