// Arbitrary lines are answered with valid messages of JSON-RPC, in bounded time; results are
// shortened to their limit.
#include <cstdlib>

#include "catalog/json_text.h"
#include "dashboard/mcp/mcp_server.h"
#include "dashboard/mcp/shortened.h"
#include "lockstep/error.h"
#include "tests/fuzz/seeds.h"

namespace {

using namespace lockstep;
using namespace lockstep::dashboard;

// Returns its arguments.
McpTool echo_tool() {
  return {.name = "echo",
          .title = "Echo",
          .description = "",
          .input_schema = {{"type", "object"}},
          .call = [](const Json& arguments) {
            if (arguments.contains("error")) throw config_error("wrong");
            constexpr size_t kMaxBytes = 2000;
            auto cut = shortened(arguments, kMaxBytes);
            if (cut.contains("cut") && catalog::to_text(cut).size() > 2 * kMaxBytes) std::abort();
            return cut;
          }};
}

void verify_answer(const std::string& text) {
  const auto json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json["jsonrpc"] != "2.0" || !json.contains("id")) std::abort();
  if (json.contains("result") == json.contains("error")) std::abort();
  if (text.find('\n') != std::string::npos) std::abort();
}

}  // namespace

std::vector<std::string> lockstep::fuzz_seeds() {
  return {
      R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}})"
      "\n"
      R"({"jsonrpc":"2.0","method":"notifications/initialized"})"
      "\n",
      R"({"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo","arguments":)"
      R"({"lines":["aaaaaaaaaaaaaaaaaaaa","b"],"a":{"b":[1,2,{"c":"\u00e4"}]},"error":1}}})"
      "\n",
      R"({"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{)"
      R"("io.modelcontextprotocol/protocolVersion":"2026-07-28",)"
      R"("io.modelcontextprotocol/clientCapabilities":{}}}})"
      "\n",
      R"({"jsonrpc":"2.0","id":3,"method":"server/discover","params":{"_meta":{}}})"
      "\n"
      R"({"jsonrpc":"2.0","id":4,"method":"ping"})"};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  McpServer server({echo_tool()}, "");
  server.receive({reinterpret_cast<const char*>(data), size}, verify_answer);
  server.finish(verify_answer);
  return 0;
}
