#include "dashboard/mcp/mcp_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "catalog/json_text.h"
#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "dashboard/mcp/shortened.h"
#include "lockstep/error.h"
#include "lockstep/version.h"

namespace lockstep::dashboard {
namespace {

constexpr int kParseError = -32700, kInvalidRequest = -32600, kUnknownMethod = -32601,
              kInvalidParams = -32602, kInternalError = -32603, kUnsupportedVersion = -32022;

// The version without a handshake, then those with one, newest first.
constexpr std::array kVersions = {"2026-07-28", "2025-11-25", "2025-06-18"};
constexpr auto kVersionKey = "io.modelcontextprotocol/protocolVersion";
constexpr auto kClientKey = "io.modelcontextprotocol/clientCapabilities";
constexpr auto kServerKey = "io.modelcontextprotocol/serverInfo";

constexpr int kMaxMessageDepth = 32, kMaxMessageValues = 10'000;  // of a message
constexpr size_t kMaxResultBytes = 100'000;
constexpr int kListValidMs = 3'600'000;  // the tools never change

// An error of the protocol.
class RpcError : public std::runtime_error {
 public:
  RpcError(int code_, const std::string& message, Json data_ = nullptr)
      : std::runtime_error(message), code(code_), data(std::move(data_)) {}
  int code;
  Json data;
};

RpcError invalid_params(const std::string& what) { return {kInvalidParams, what}; }

Json error_json(const Json& id, const RpcError& error) {
  Json json = {{"code", error.code}, {"message", error.what()}};
  if (!error.data.is_null()) json["data"] = error.data;
  return {{"jsonrpc", "2.0"}, {"id", id}, {"error", json}};
}

Json parse_message(std::string_view text) {
  bool is_excessive = false;
  int num_values = 0;
  const auto count = [&](int depth, Json::parse_event_t, const Json&) {
    is_excessive = is_excessive || depth > kMaxMessageDepth || ++num_values > kMaxMessageValues;
    return !is_excessive;
  };
  auto json = Json::parse(text, count, /*allow_exceptions=*/false);
  if (is_excessive)
    throw RpcError(kInvalidRequest,
                   fmt::format("the message is nested deeper than {} levels or has more than {} "
                               "values",
                               kMaxMessageDepth, kMaxMessageValues));
  if (json.is_discarded()) throw RpcError(kParseError, "the message is not valid JSON");
  if (json.is_array())
    throw RpcError(kInvalidRequest, "batches are not supported: send one message per line");
  if (!json.is_object()) throw RpcError(kInvalidRequest, "expected a JSON object");
  return json;
}

// Whether a request carries its protocol version, as from 2026-07-28 on.
bool carries_version(const Json& params) {
  const auto meta = params.find("_meta");
  if (meta == params.end()) return false;
  if (!meta->is_object()) throw invalid_params("_meta: expected an object");
  if (!meta->contains(kVersionKey) && !meta->contains(kClientKey)) return false;
  const auto version = meta->find(kVersionKey);
  if (version == meta->end() || !version->is_string())
    throw invalid_params(fmt::format("_meta: {}: expected a string", kVersionKey));
  if (*version != kVersions.front())
    throw RpcError(kUnsupportedVersion, "unsupported protocol version",
                   {{"supported", kVersions}, {"requested", *version}});
  const auto capabilities = meta->find(kClientKey);
  if (capabilities == meta->end() || !capabilities->is_object())
    throw invalid_params(fmt::format("_meta: {}: expected an object", kClientKey));
  return true;
}

Json server_info() {
  return {{"name", "lockstep"}, {"title", "Lockstep runs"}, {"version", kVersion}};
}

Json content_of(const std::string& text) {
  return Json::array({Json{{"type", "text"}, {"text", text}}});
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

McpServer::McpServer(std::vector<McpTool> tools, std::string instructions)
    : tools_(std::move(tools)), instructions_(std::move(instructions)) {}

void McpServer::receive(std::string_view bytes, const Send& send) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto part = bytes.substr(0, end);
    is_too_long_ = is_too_long_ || line_.size() + part.size() > kMaxMcpMessageBytes;
    if (is_too_long_)
      line_.clear();
    else
      line_.append(part);
    if (end == std::string_view::npos) return;
    end_line(send);
    bytes.remove_prefix(end + 1);
  }
}

void McpServer::finish(const Send& send) { end_line(send); }

void McpServer::end_line(const Send& send) {
  std::string text;
  if (is_too_long_)
    text = catalog::to_text(error_json(
        nullptr,
        {kInvalidRequest, fmt::format("the message exceeds {} bytes", kMaxMcpMessageBytes)}));
  else if (!is_blank(line_))
    text = answer(line_);
  line_.clear();
  is_too_long_ = false;
  if (!text.empty()) send(text);
}

std::string McpServer::answer(std::string_view text) const {
  Json id = nullptr;
  try {
    const auto message = parse_message(text);
    if (message.contains("id") && (message["id"].is_string() || message["id"].is_number_integer()))
      id = message["id"];
    const auto method = message.find("method");
    // An answer to a request, of which the server sends none.
    if (method == message.end() && (message.contains("result") || message.contains("error")))
      return "";
    if (message.value("jsonrpc", Json()) != "2.0")
      throw RpcError(kInvalidRequest, "jsonrpc: expected \"2.0\"");
    if (method == message.end() || !method->is_string())
      throw RpcError(kInvalidRequest, "method: expected a string");
    if (!message.contains("id")) return "";  // a notification
    if (id.is_null()) throw RpcError(kInvalidRequest, "id: expected a string or an integer");
    const auto params = message.value("params", Json::object());
    if (!params.is_object()) throw invalid_params("params: expected an object");
    return catalog::to_text({{"jsonrpc", "2.0"},
                             {"id", id},
                             {"result", result_of(method->get<std::string>(), params)}});
  } catch (const RpcError& error) {
    return catalog::to_text(error_json(id, error));
  } catch (const std::exception& error) {
    return catalog::to_text(
        error_json(id, {kInternalError, fmt::format("internal error: {}", error.what())}));
  }
}

Json McpServer::result_of(const std::string& method, const Json& params) const {
  const bool is_stateless = carries_version(params);
  Json result;
  if (method == "tools/list") {
    result = list_tools(params);
  } else if (method == "tools/call") {
    result = call_tool(params);
  } else if (method == "server/discover") {
    if (!is_stateless) throw invalid_params(fmt::format("_meta: {}: is required", kVersionKey));
    result = discover();
  } else if (method == "initialize" && !is_stateless) {
    return initialize(params);
  } else if (method == "ping" && !is_stateless) {
    return Json::object();
  } else {
    throw RpcError(kUnknownMethod, fmt::format("unknown method '{}'", printable(method)));
  }
  if (!is_stateless) return result;
  result["resultType"] = "complete";
  if (method != "tools/call") result.update({{"ttlMs", kListValidMs}, {"cacheScope", "public"}});
  result["_meta"][kServerKey] = server_info();
  return result;
}

Json McpServer::initialize(const Json& params) const {
  const auto requested = params.find("protocolVersion");
  if (requested == params.end() || !requested->is_string())
    throw invalid_params("protocolVersion: expected a string");
  std::string version = kVersions[1];
  for (size_t i = 1; i < kVersions.size(); ++i)
    if (*requested == kVersions[i]) version = kVersions[i];
  return {{"protocolVersion", version},
          {"capabilities", {{"tools", Json::object()}}},
          {"serverInfo", server_info()},
          {"instructions", instructions_}};
}

Json McpServer::discover() const {
  return {{"supportedVersions", kVersions},
          {"capabilities", {{"tools", Json::object()}}},
          {"instructions", instructions_}};
}

Json McpServer::list_tools(const Json& params) const {
  if (params.contains("cursor")) throw invalid_params("cursor: the list of tools has one page");
  auto list = Json::array();
  for (const auto& tool : tools_)
    list.push_back(
        {{"name", tool.name},
         {"title", tool.title},
         {"description", tool.description},
         {"inputSchema", tool.input_schema},
         {"annotations",
          {{"readOnlyHint", true}, {"idempotentHint", true}, {"openWorldHint", false}}}});
  return {{"tools", list}};
}

Json McpServer::call_tool(const Json& params) const {
  const auto name = params.find("name");
  if (name == params.end() || !name->is_string()) throw invalid_params("name: expected a string");
  const auto tool = std::ranges::find(tools_, name->get<std::string>(), &McpTool::name);
  if (tool == tools_.end()) {
    std::vector<std::string> names;
    for (const auto& known : tools_) names.push_back(known.name);
    const auto given = name->get<std::string>();
    throw invalid_params(
        fmt::format("unknown tool '{}'{}", printable(given), suggest(given, names)));
  }
  auto arguments = params.value("arguments", Json::object());
  if (arguments.is_null()) arguments = Json::object();
  if (!arguments.is_object()) throw invalid_params("arguments: expected an object");
  try {
    const auto content = shortened(tool->call(arguments), kMaxResultBytes);
    return {{"content", content_of(catalog::to_text(content))},
            {"structuredContent", content},
            {"isError", false}};
  } catch (const Error& error) {
    return {{"content", content_of(error.what())}, {"isError", true}};
  }
}

}  // namespace lockstep::dashboard
