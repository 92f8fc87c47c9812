#include "launch/ssh/hostfile.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/number_text.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr size_t kMaxHosts = 100'000;
constexpr size_t kMaxQuoteLength = 80;

class Reader {
 public:
  Reader(const std::string& origin, int line) : origin_(origin), line_(line) {}

  Host read(const std::vector<std::string_view>& words) const {
    Host host = read_address(words.front());
    host.line = line_;
    for (size_t i = 1; i < words.size(); ++i) {
      const auto equals = words[i].find('=');
      const auto key = words[i].substr(0, equals);
      if (equals == std::string_view::npos || key != "slots")
        fail(
            fmt::format("unexpected '{}'; expected 'host', 'user@host' or 'host:port', then "
                        "'slots=N'",
                        quote(words[i])));
      if (host.slots) fail("slots is given twice");
      host.slots = to_number(words[i].substr(equals + 1), "slots", 1024);
    }
    return host;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw config_error(fmt::format("{}:{}: {}", origin_, line_, what));
  }

 private:
  static std::string quote(std::string_view text) {
    return std::string(text.substr(0, kMaxQuoteLength));
  }

  int to_number(std::string_view text, const char* what, int max) const {
    const auto value = parse_number<int>(text).value_or(0);
    if (value < 1 || value > max)
      fail(fmt::format("{} '{}': expected a number from 1 to {}", what, quote(text), max));
    return value;
  }

  Host read_address(std::string_view text) const {
    Host host;
    if (const auto at = text.rfind('@'); at != std::string_view::npos) {
      host.user = checked_name(text.substr(0, at), "user");
      text.remove_prefix(at + 1);
    }
    if (!text.empty() && text.front() == '[') return read_bracketed(std::move(host), text);
    const auto colon = text.find(':');
    const bool is_ipv6 = colon != text.rfind(':');
    if (colon != std::string_view::npos && !is_ipv6) {
      host.port = to_number(text.substr(colon + 1), "port", 65535);
      text = text.substr(0, colon);
    }
    host.name = checked_name(text, "host");
    return host;
  }

  // "[fd00::2]:22"
  Host read_bracketed(Host host, std::string_view text) const {
    const auto end = text.find(']');
    if (end == std::string_view::npos) fail(fmt::format("'{}' has no ']'", quote(text)));
    host.name = checked_name(text.substr(1, end - 1), "host");
    const auto rest = text.substr(end + 1);
    if (rest.empty()) return host;
    if (rest.front() != ':') fail(fmt::format("'{}': expected ':port' after ']'", quote(text)));
    host.port = to_number(rest.substr(1), "port", 65535);
    return host;
  }

  // ssh would parse a name that begins with a dash as an option.
  std::string checked_name(std::string_view text, const char* what) const {
    const bool valid =
        !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), [](char c) {
          return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' ||
                 c == ':' || c == '%';
        });
    if (!valid)
      fail(fmt::format("'{}' is not a valid {} name: expected letters, digits, '-', '_' and '.'",
                       quote(text), what));
    return std::string(text);
  }

  const std::string& origin_;
  int line_;
};

std::vector<std::string_view> split_words(std::string_view line) {
  constexpr auto kBlanks = " \t\r";
  std::vector<std::string_view> words;
  line = line.substr(0, line.find('#'));
  while (true) {
    const auto begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return words;
    const auto end = std::min(line.find_first_of(kBlanks, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

// In the order of their lines, so that the error names the later one.
void verify_distinct(const std::vector<Host>& hosts, const std::string& origin) {
  auto sorted = hosts;
  const auto key = [](const Host& host) { return std::tie(host.name, host.port); };
  std::sort(sorted.begin(), sorted.end(), [&](const Host& a, const Host& b) {
    return std::tuple_cat(key(a), std::tie(a.line)) < std::tuple_cat(key(b), std::tie(b.line));
  });
  const auto duplicate = std::adjacent_find(
      sorted.begin(), sorted.end(), [&](const Host& a, const Host& b) { return key(a) == key(b); });
  if (duplicate == sorted.end()) return;
  const auto& later = *std::next(duplicate);
  throw config_error(
      fmt::format("{}:{}: {} is already listed in line {}; set its number of ranks with slots=N",
                  origin, later.line, later.name, duplicate->line));
}

}  // namespace

std::vector<Host> parse_hostfile(std::string_view text, const std::string& origin) {
  std::vector<Host> hosts;
  for (int line = 1; !text.empty(); ++line) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto words = split_words(text.substr(0, end));
    const Reader reader(origin, line);
    if (!words.empty()) hosts.push_back(reader.read(words));
    if (hosts.size() > kMaxHosts) reader.fail(fmt::format("more than {} hosts", kMaxHosts));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (hosts.empty()) throw config_error(fmt::format("{}: no hosts; expected one per line", origin));
  verify_distinct(hosts, origin);
  return hosts;
}

int ranks_on(const Host& host, std::optional<int> wanted, const std::string& origin) {
  if (wanted && host.slots && *host.slots < *wanted)
    throw config_error(fmt::format("{}:{}: {} has slots={}, but -n requests {} ranks per host",
                                   origin, host.line, host.name, *host.slots, *wanted));
  return wanted ? *wanted : host.slots.value_or(1);
}

}  // namespace lockstep::launch
