#include "dashboard/server/dashboard_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <atomic>
#include <future>
#include <thread>

#include "catalog/index/column_spool.h"
#include "catalog/json_text.h"
#include "catalog/run_list.h"
#include "core/bounded_json.h"
#include "core/number_text.h"
#include "core/system/durable_file.h"
#include "core/system/local_address.h"
#include "dashboard/api/api.h"
#include "dashboard/api/assets.h"
#include "dashboard/api/audit.h"
#include "dashboard/api/handlers.h"
#include "dashboard/api/receive.h"
#include "dashboard/api/report.h"
#include "dashboard/server/bounded_server.h"
#include "dashboard/server/http_guard.h"
#include "dashboard/server/http_response.h"
#include "lockstep/error.h"
#include "tracking/copies/run_files.h"
#include "tracking/http/http_server_thread.h"

namespace lockstep::dashboard {

namespace fs = std::filesystem;

namespace {

constexpr size_t kServerThreads = kMaxStreams + 32;
constexpr std::chrono::seconds kRequestTimeout{5};

bool has_tokens(const DashboardOptions& options) {
  return !options.token.empty() || !options.tokens_file.empty();
}

size_t max_body_bytes(const DashboardOptions& options) {
  return options.receives ? tracking::kMaxRunFileBytes : RequestLimits().body_bytes;
}

// The head "PUT /api/collect/RUN/... HTTP/1.1\r\n..." of a machine with a valid token.
bool is_of_sender(std::string_view head, const HttpGuard& guard) {
  const auto target = head.substr(std::min(head.find(' '), head.size() - 1) + 1);
  std::string sender;
  return target.starts_with(kCollectPath) &&
         !guard.authorize_sender(
             {.authorization = std::string(header_value(head, "authorization"))}, sender);
}

}  // namespace

struct DashboardServer::State {
  explicit State(DashboardOptions given)
      : options(std::move(given)),
        spool({options.runs, "/var/tmp", "/tmp"}),
        catalog(
            options.runs, spool,
            options.actions ? catalog::CatalogReading::AllAndKeep : catalog::CatalogReading::All),
        dashboard{.catalog = catalog,
                  .actions = options.actions,
                  .token = has_tokens(options),
                  .schema = options.schema},
        server({.request = {.large_body_bytes = max_body_bytes(options),
                            .may_be_large =
                                [this](std::string_view head) {
                                  return receiver && is_of_sender(head, *guard);
                                }},
                .request_timeout = kRequestTimeout},
               kServerThreads) {
    if (options.receives)
      receiver = std::make_unique<tracking::RunReceiver>(
          options.runs, options.receive_limits,
          [runs = options.runs](const tracking::RunReceiver::Request& created) {
            record_change(runs, {.user = created.sender}, "receive", created.run);
          });
  }

  DashboardOptions options;
  catalog::ColumnSpool spool;
  catalog::RunCatalog catalog;
  Dashboard dashboard;
  std::unique_ptr<tracking::RunReceiver> receiver;  // nullptr: receives no runs
  std::unique_ptr<HttpGuard> guard;
  std::string link;
  std::atomic<int> num_streams = 0;
  std::atomic<bool> stopping = false;
  std::shared_future<void> ended;  // when the listening thread has exited
  BoundedServer server;            // last: its handlers use all of the above
};

namespace {

constexpr int kFirstPort = 8080, kNumTriedPorts = 20;
constexpr auto kStartTimeout = std::chrono::seconds(10);
constexpr auto kStopTimeout = std::chrono::milliseconds(500);
constexpr auto kStreamPoll = std::chrono::milliseconds(1000);
constexpr int kPollsPerKeepAlive = 15;  // comments keep an idle stream open

constexpr const char* kContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self'; connect-src 'self'; font-src 'self'; frame-src 'self'; base-uri 'none'; "
    "form-action 'self'; "
    "frame-ancestors 'none'";

using State = DashboardServer::State;

HttpHead head_of(const httplib::Request& request) {
  return {.method = request.method,
          .path = request.path,
          .host = request.get_header_value("Host"),
          .origin = request.get_header_value("Origin"),
          .fetch_site = request.get_header_value("Sec-Fetch-Site"),
          .fetch_mode = request.get_header_value("Sec-Fetch-Mode"),
          .content_type = request.get_header_value("Content-Type"),
          .authorization = request.get_header_value("Authorization"),
          .cookie = request.get_header_value("Cookie"),
          .marker = request.get_header_value("X-Lockstep-Request"),
          .forwarded_proto = request.get_header_value("X-Forwarded-Proto"),
          .num_hosts = request.get_header_value_count("Host")};
}

uint64_t event_number(const httplib::Request& request) {
  const auto last = request.get_header_value("Last-Event-ID");
  const auto text = last.empty() ? request.get_param_value("since") : last;
  return std::strtoull(text.c_str(), nullptr, 10);
}

// Server-sent events of one client. send_next() sends the changes since the last event, or a
// keep-alive comment, and returns false when the client has disconnected.
struct EventStream {
  State& state;
  uint64_t number;
  int idle_polls = 0;

  bool send_next(httplib::DataSink& sink) {
    state.catalog.wait(number, kStreamPoll);
    if (state.stopping) {
      sink.done();
      return true;
    }
    if (state.catalog.number() <= number) {
      if (++idle_polls < kPollsPerKeepAlive) return sink.is_writable();
      idle_polls = 0;
      return write(sink, ": here\n\n");
    }
    idle_polls = 0;
    const auto changes = state.catalog.changes_since(number);
    number = changes.number;
    return write(sink, fmt::format("event: change\nid: {}\ndata: {}\n\n", number,
                                   catalog::to_text(changes_json(changes, state.catalog))));
  }
  static bool write(httplib::DataSink& sink, const std::string& text) {
    return sink.write(text.data(), text.size());
  }
};

void send_events(State& state, const httplib::Request& request, httplib::Response& response) {
  if (++state.num_streams > kMaxStreams) {
    --state.num_streams;
    return send(ApiError(503, "too_many_streams", "too many streams; poll /api/changes").response(),
                request, response);
  }
  const auto since = event_number(request);
  auto stream =
      std::make_shared<EventStream>(EventStream{state, since > 0 ? since : state.catalog.number()});
  response.set_header("Cache-Control", "no-store");
  response.set_header("X-Accel-Buffering", "no");
  response.set_chunked_content_provider(
      "text/event-stream",
      [stream](size_t offset, httplib::DataSink& sink) {
        if (offset == 0 && !EventStream::write(sink, ": here\n\n")) return false;
        return stream->send_next(sink);
      },
      [&state](bool) { --state.num_streams; });
}

ApiResponse log_in(State& state, const httplib::Request& request, httplib::Response& response) {
  const auto body = parse_json(request.body);
  const auto token = body.is_object() ? body.value("token", Json("")) : Json("");
  const auto identity =
      token.is_string() ? state.guard->identity_of(token.get<std::string>()) : std::nullopt;
  if (!identity) return state.guard->unauthorized("invalid token").response();
  if (identity->role == Role::Send)
    return ApiError(403, "forbidden", "this token may only send runs").response();
  response.set_header("Set-Cookie", state.guard->new_cookie(*identity, head_of(request)));
  return json_response({{"ok", true}});
}

void use_ticket(State& state, const httplib::Request& request, httplib::Response& response) {
  if (state.guard->redeem_ticket(request.get_param_value("ticket")))
    response.set_header("Set-Cookie", state.guard->new_cookie({.name = "owner"}, head_of(request)));
  response.set_redirect("/", 303);
}

ApiRequest api_request(const httplib::Request& request, const Identity& who) {
  ApiRequest converted{.method = request.method == "HEAD" ? "GET" : request.method,
                       .path = request.path,
                       .body = request.body,
                       .user = who.name,
                       .may_write = who.role == Role::Write};
  for (const auto& [name, value] : request.params) converted.params.emplace(name, value);
  return converted;
}

ApiResponse receive(State& state, const httplib::Request& request) {
  if (!state.receiver)
    return ApiError(404, "not_found", "this dashboard does not receive runs (--receive)")
        .response();
  std::string sender;
  if (auto error = state.guard->authorize_sender(head_of(request), sender))
    return error->response();
  return handle_received(*state.receiver,
                         api_request(request, {.name = sender, .role = Role::Send}), sender);
}

void handle(State& state, const httplib::Request& request, httplib::Response& response) {
  if (request.path.starts_with(kCollectPath))
    return send(receive(state, request), request, response);
  Identity who;
  if (auto error = state.guard->authorize(head_of(request), who))
    return send(error->response(), request, response);
  const auto& path = request.path;
  if (path == "/login") return use_ticket(state, request, response);
  if (path == "/api/login" && request.method == "POST")
    return send(log_in(state, request, response), request, response);
  if (path == "/api/events") return send_events(state, request, response);
  if (path == "/api/report.html")
    return send(get_report(state.dashboard, api_request(request, who)), request, response);
  if (path.starts_with("/api/"))
    return send(handle_api_request(state.dashboard, api_request(request, who)), request, response);
  if (const auto* asset = find_asset(path)) return send_asset(*asset, request, response);
  send(not_found("page not found").response(), request, response);
}

// Before the body is read: that of a large request without the right to send was not received.
httplib::Server::HandlerResponse reject_large(State& state, const httplib::Request& request,
                                              httplib::Response& response) {
  using Result = httplib::Server::HandlerResponse;
  const auto length = parse_number<uint64_t>(request.get_header_value("Content-Length"));
  if (!length || *length <= RequestLimits().body_bytes) return Result::Unhandled;
  std::string sender;
  std::optional<ApiError> error(std::in_place, 413, "too_large", "the body is too large");
  if (request.path.starts_with(kCollectPath) && state.receiver)
    error = state.guard->authorize_sender(head_of(request), sender);
  if (!error) return Result::Unhandled;
  response.set_header("Connection", "close");  // the body is not read
  send(error->response(), request, response);
  return Result::Handled;
}

// For a range beyond the end of a body, the library (0.11) would send memory after it. Handlers that
// support ranges read the header. The library's request is not const.
void ignore_ranges(const httplib::Request& request) {
  const_cast<httplib::Request&>(request).ranges.clear();
}

void configure(State& state) {
  auto& server = state.server;
  server.set_socket_options(tracking::reuse_address_only);
  server.set_keep_alive_timeout(kRequestTimeout.count());
  server.set_tcp_nodelay(true);
  server.set_payload_max_length(max_body_bytes(state.options));
  server.set_default_headers({{"Content-Security-Policy", kContentPolicy},
                              {"X-Content-Type-Options", "nosniff"},
                              {"Referrer-Policy", "no-referrer"},
                              {"X-Frame-Options", "DENY"},
                              {"Cross-Origin-Resource-Policy", "same-origin"},
                              {"Cross-Origin-Opener-Policy", "same-origin"}});
  const auto handler = [&state](const httplib::Request& request, httplib::Response& response) {
    handle(state, request, response);
  };
  server.set_pre_routing_handler(
      [&state](const httplib::Request& request, httplib::Response& response) {
        ignore_ranges(request);
        return reject_large(state, request, response);
      });
  server.Get(".*", handler).Post(".*", handler).Put(".*", handler).Delete(".*", handler);
  server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (!response.body.empty() || response.has_header("Content-Length")) return;
    response.set_header("Connection", "close");  // the rest of the request is not read
    const auto code = response.status == 413 ? "too_large" : "bad_request";
    response.set_content(
        ApiError(response.status, code, "malformed or oversized request").response().body,
        "application/json");
  });
}

int bind(httplib::Server& server, const DashboardOptions& options) {
  if (options.port > 0) return server.bind_to_port(options.host, options.port) ? options.port : -1;
  for (int port = kFirstPort; port < kFirstPort + kNumTriedPorts; ++port)
    if (server.bind_to_port(options.host, port)) return port;
  return server.bind_to_any_port(options.host);
}

void verify(const DashboardOptions& options) {
  if (options.receives && !has_tokens(options))
    throw config_error("--receive requires a token: use --tokens FILE or --token-file FILE");
  if (options.receives) make_directories(options.runs);
  catalog::verify_runs_directory(options.runs);
  if (!is_loopback_name(options.host) && !has_tokens(options))
    throw config_error(
        fmt::format("--host {} is reachable from other machines and requires a token: use "
                    "--token-file FILE or --tokens FILE",
                    options.host));
}

std::shared_ptr<AccessTokenFile> open_tokens(const DashboardOptions& options) {
  if (options.tokens_file.empty()) return nullptr;
  return std::make_shared<AccessTokenFile>(options.tokens_file, options.warn);
}

bool is_any_address(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return v4.s_addr == INADDR_ANY;
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

// A host that a browser on another machine can open. For a wildcard address, that is the address of
// the default route, or the host name if there is no route.
std::string host_of_link(const std::string& host) {
  if (!is_any_address(host)) return host;
  if (host.find(':') != std::string::npos)
    if (const auto address = local_address_for("2001:db8::1")) return *address;
  return local_address_for("192.0.2.1").value_or(own_host_name());
}

// Returns when the library has created its task queue: before that, stop() has no effect.
void start(const std::shared_ptr<State>& state) {
  auto listening = std::make_shared<std::promise<void>>();
  auto started = listening->get_future();
  std::promise<void> ended;
  state->ended = ended.get_future().share();
  state->server.new_task_queue = [&server = state->server, listening] {
    auto* tasks = server.make_task_queue();
    listening->set_value();
    return tasks;
  };
  std::thread([state, ended = std::move(ended)]() mutable {
    state->server.listen_after_bind();
    ended.set_value();
  }).detach();
  if (started.wait_for(kStartTimeout) != std::future_status::ready)
    throw environment_error(
        fmt::format("the dashboard server did not start within {} s", kStartTimeout.count()));
}

}  // namespace

bool is_loopback_name(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  if (::inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

DashboardServer::DashboardServer(DashboardOptions options) {
  verify(options);
  options.runs = fs::canonical(options.runs);
  state_ = std::make_shared<State>(std::move(options));
  configure(*state_);
  const auto& host = state_->options.host;
  const auto port = bind(state_->server, state_->options);
  if (port <= 0)
    throw environment_error(
        fmt::format("cannot listen on {} port {}: in use, or not an address of this machine", host,
                    state_->options.port));
  state_->guard =
      std::make_unique<HttpGuard>(GuardRules{.host_names = state_->options.host_names,
                                             .token = state_->options.token,
                                             .tokens = open_tokens(state_->options),
                                             .cookie_name = fmt::format("lockstep_{}", port)});
  const auto shown = host_of_link(host);
  const bool is_v6 = shown.find(':') != std::string::npos;
  const auto& ticket = state_->guard->ticket();
  state_->link = fmt::format("http://{}:{}/{}", is_v6 ? "[" + shown + "]" : shown, port,
                             ticket.empty() ? "" : "login?ticket=" + ticket);
  start(state_);
}

DashboardServer::~DashboardServer() { stop(); }

void DashboardServer::stop() {
  state_->stopping = true;
  state_->catalog.stop();
  state_->server.stop();
  state_->ended.wait_for(kStopTimeout);
}

const std::string& DashboardServer::link() const { return state_->link; }

}  // namespace lockstep::dashboard
