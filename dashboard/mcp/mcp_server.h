// A server of the Model Context Protocol, independent of its transport: bytes of messages in,
// answers out. JSON-RPC 2.0, one message per line. Versions with a handshake (initialize) and
// without one (2026-07-28) are served side by side; no state is kept between messages.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/config_value.h"

namespace lockstep::dashboard {

constexpr size_t kMaxMcpMessageBytes = 1u << 20;  // of a message to the server

// A read-only tool that clients can call.
struct McpTool {
  std::string name, title, description;
  Json input_schema;  // JSON Schema of the arguments, an object
  // Returns an object. Any Error becomes a result with isError.
  std::function<Json(const Json& arguments)> call;
};

// Thread: one at a time.
class McpServer {
 public:
  // Called with one complete answer, without a line break.
  using Send = std::function<void(const std::string& answer)>;

  // `instructions`: what a client should know about the server.
  McpServer(std::vector<McpTool> tools, std::string instructions);

  // Adds bytes of the input, and answers the lines that they complete. Keeps at most
  // kMaxMcpMessageBytes of an unfinished line.
  void receive(std::string_view bytes, const Send& send);
  // Answers the last line of an input that does not end with a line break.
  void finish(const Send& send);

  // The answer to one message; empty for notifications.
  std::string answer(std::string_view message) const;

 private:
  void end_line(const Send& send);
  Json result_of(const std::string& method, const Json& params) const;
  Json initialize(const Json& params) const;
  Json discover() const;
  Json list_tools(const Json& params) const;
  Json call_tool(const Json& params) const;

  std::vector<McpTool> tools_;
  std::string instructions_;
  std::string line_;
  bool is_too_long_ = false;
};

}  // namespace lockstep::dashboard
