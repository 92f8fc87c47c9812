#include "dashboard/server/http_guard.h"

#include <catch2/catch.hpp>

using namespace lockstep;
using namespace lockstep::dashboard;

namespace {

HttpHead get(const std::string& path) {
  return {.method = "GET", .path = path, .host = "localhost:8080"};
}

HttpHead post(const std::string& path) {
  return {.method = "POST",
          .path = path,
          .host = "localhost:8080",
          .origin = "http://localhost:8080",
          .fetch_site = "same-origin",
          .content_type = "application/json",
          .marker = "1"};
}

int status(const HttpGuard& guard, const HttpHead& head) {
  Identity who;
  const auto error = guard.authorize(head, who);
  return error ? error->status : 200;
}

}  // namespace

TEST_CASE("guard: Host must be a loopback name, an address or an allowed name") {
  const HttpGuard guard(GuardRules{.host_names = {"node1"}});
  for (const char* host : {"localhost", "localhost:9000", "127.0.0.1:8080", "[::1]:8080", "::1",
                           "10.1.2.3", "LOCALHOST", "localhost.", "node1:80", "x.localhost"}) {
    auto head = get("/api/runs");
    head.host = host;
    INFO(host);
    CHECK(status(guard, head) == 200);
  }
  for (const char* host : {"", "evil.example", "localhost.evil.example", "evil.example:8080",
                           "127.0.0.1.evil.example", "node1.evil", "[::1", "1"}) {
    auto head = get("/api/runs");
    head.host = host;
    INFO(host);
    CHECK(status(guard, head) == 403);
  }
}

TEST_CASE("guard: a page of another site can neither read nor write, but can link here") {
  const HttpGuard guard(GuardRules{});
  auto read = get("/api/runs");
  read.fetch_site = "cross-site";
  CHECK(status(guard, read) == 403);
  read.fetch_mode = "navigate";
  CHECK(status(guard, read) == 403);
  auto page = get("/");
  page.fetch_site = "cross-site";
  CHECK(status(guard, page) == 403);
  page.fetch_mode = "navigate";
  CHECK(status(guard, page) == 200);

  CHECK(status(guard, post("/api/runs/a/tags")) == 200);
  for (const char* origin : {"http://evil.example", "null", "http://localhost.evil"}) {
    auto write = post("/api/runs/a/tags");
    write.origin = origin;
    INFO(origin);
    CHECK(status(guard, write) == 403);
  }
  for (const char* site : {"cross-site", "same-site"}) {
    auto write = post("/api/runs/a/tags");
    write.fetch_site = site;
    CHECK(status(guard, write) == 403);
  }
  auto form = post("/api/runs/a/tags");
  form.content_type = "text/plain";
  CHECK(status(guard, form) == 403);
  auto unmarked = post("/api/runs/a/tags");
  unmarked.marker = "";
  CHECK(status(guard, unmarked) == 403);
  auto remove = post("/api/runs/a");
  remove.method = "DELETE";
  CHECK(status(guard, remove) == 200);
  remove.marker = "";
  CHECK(status(guard, remove) == 403);
}

TEST_CASE("guard: with a token, all paths below /api require it or a session") {
  HttpGuard guard(GuardRules{.token = "a long secret token", .cookie_name = "lockstep_8080"});
  CHECK(status(guard, get("/")) == 200);
  CHECK(status(guard, get("/app.js")) == 200);
  CHECK(status(guard, get("/api/runs")) == 401);
  CHECK(status(guard, get("/api/events")) == 401);
  CHECK(status(guard, post("/api/login")) == 200);
  auto head = get("/api/runs");
  head.authorization = "Bearer a long secret token";
  CHECK(status(guard, head) == 200);
  for (const char* wrong : {"Bearer a long secret tokem", "Bearer ", "a long secret token",
                            "Basic a long secret token", "Bearer a long secret token "}) {
    head.authorization = wrong;
    CHECK(status(guard, head) == 401);
  }
  const auto cookie = guard.new_cookie({.name = "token"}, {});
  CHECK_THAT(cookie, Catch::Contains("HttpOnly") && Catch::Contains("SameSite"));
  auto session = get("/api/runs");
  session.cookie = "other=1; " + cookie.substr(0, cookie.find(';'));
  CHECK(status(guard, session) == 200);
  session.cookie = "lockstep_8080=; lockstep_8080=0";
  CHECK(status(guard, session) == 401);
}

TEST_CASE("guard: a ticket works once, and only if a token is required") {
  HttpGuard guard(GuardRules{.token = "a long secret token", .cookie_name = "c"});
  const auto ticket = guard.ticket();
  CHECK(ticket.size() == 64);
  CHECK_FALSE(guard.redeem_ticket("wrong"));
  CHECK(guard.redeem_ticket(ticket));
  CHECK_FALSE(guard.redeem_ticket(ticket));
  HttpGuard open(GuardRules{});
  CHECK(open.ticket().empty());
  CHECK_FALSE(open.redeem_ticket(""));
  CHECK_FALSE(open.identity_of(""));
}
