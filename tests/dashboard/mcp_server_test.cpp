#include "dashboard/mcp/mcp_server.h"

#include <catch2/catch.hpp>

#include "catalog/json_text.h"
#include "dashboard/mcp/mcp_tools.h"
#include "dashboard/mcp/shortened.h"
#include "tests/temporary_directory.h"
#include "tests/tracking/sample_log.h"

using namespace lockstep;
using namespace lockstep::dashboard;

namespace {

// Two runs: "mnist-1" with a record of every type, and "other-2".
struct SampleRuns {
  SampleRuns() {
    std::filesystem::create_directories(directory / "mnist-1/events");
    std::filesystem::create_directories(directory / "other-2/events");
    tracking::write_sample_log(directory / "mnist-1/events/rank-00000.lsev");
    tracking::EventLogWriter log(directory / "other-2/events/rank-00000.lsev");
    log.identity(tracking::sample_info("other-2"));
    log.config({{"optimizer", {{"lr", 0.2}}}});
    for (int64_t step = 0; step < 1000; ++step)
      tracking::log_loss(log, step, static_cast<double>(step));
    log.end({.state = RunState::Failed, .exit_code = 75, .rank = 0, .reason = "disk full"});
  }

  TemporaryDirectory directory;
};

class SampleServer {
 public:
  explicit SampleServer(catalog::CatalogReading reading = catalog::CatalogReading::All)
      : catalog_(runs_.directory.path(), spool_, reading) {}

  std::filesystem::path run_directory(const std::string& id) const { return runs_.directory / id; }

  // The answer to a message; null if there is none.
  Json answer(const std::string& message) const {
    const auto text = server_.answer(message);
    return text.empty() ? Json() : Json::parse(text);
  }

  Json request(const std::string& method, const Json& params) const {
    return answer(
        Json{{"jsonrpc", "2.0"}, {"id", 7}, {"method", method}, {"params", params}}.dump());
  }

  Json call(const std::string& tool, const Json& arguments) const {
    return request("tools/call", {{"name", tool}, {"arguments", arguments}})["result"];
  }

  // What the tool returns, as data and as text.
  Json content(const std::string& tool, const Json& arguments = Json::object()) const {
    const auto result = call(tool, arguments);
    INFO(result.dump());
    REQUIRE(result["isError"] == false);
    CHECK(result["content"][0]["type"] == "text");
    CHECK(Json::parse(result["content"][0]["text"].get<std::string>()) ==
          result["structuredContent"]);
    return result["structuredContent"];
  }

  std::string error(const std::string& tool, const Json& arguments) const {
    const auto result = call(tool, arguments);
    REQUIRE(result["isError"] == true);
    CHECK(!result.contains("structuredContent"));
    return result["content"][0]["text"].get<std::string>();
  }

  McpServer& server() { return server_; }

 private:
  SampleRuns runs_;
  catalog::ColumnSpool spool_{{runs_.directory.path()}};
  catalog::RunCatalog catalog_;
  Dashboard dashboard_{.catalog = catalog_, .actions = false, .schema = {}};
  McpServer server_{mcp_tools(dashboard_), "sample"};
};

int code_of(const Json& answer) { return answer["error"]["code"].get<int>(); }

Json stateless(Json params, const std::string& version = "2026-07-28") {
  params["_meta"] = {{"io.modelcontextprotocol/protocolVersion", version},
                     {"io.modelcontextprotocol/clientCapabilities", Json::object()}};
  return params;
}

}  // namespace

TEST_CASE("mcp: the version is negotiated in the handshake") {
  const SampleServer sample;
  const auto version_for = [&](const char* requested) {
    const auto result =
        sample.request("initialize", {{"protocolVersion", requested},
                                      {"capabilities", Json::object()},
                                      {"clientInfo", {{"name", "test"}}}})["result"];
    CHECK(result["capabilities"].contains("tools"));
    CHECK(result["serverInfo"]["name"] == "lockstep");
    CHECK(result["instructions"] == "sample");
    return result["protocolVersion"].get<std::string>();
  };
  CHECK(version_for("2025-06-18") == "2025-06-18");
  CHECK(version_for("2025-11-25") == "2025-11-25");
  CHECK(version_for("2024-11-05") == "2025-11-25");
  CHECK(version_for("2026-07-28") == "2025-11-25");  // has no handshake
  CHECK(code_of(sample.request("initialize", Json::object())) == -32602);
  CHECK(sample.answer(R"({"jsonrpc":"2.0","method":"notifications/initialized"})").is_null());
  CHECK(sample.request("ping", Json::object())["result"] == Json::object());
}

TEST_CASE("mcp: requests that carry the version need no handshake") {
  const SampleServer sample;
  const auto found = sample.request("server/discover", stateless(Json::object()))["result"];
  CHECK(found["supportedVersions"] == Json({"2026-07-28", "2025-11-25", "2025-06-18"}));
  CHECK(found["resultType"] == "complete");
  CHECK(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "lockstep");
  const auto list = sample.request("tools/list", stateless(Json::object()))["result"];
  CHECK((list["resultType"] == "complete" && list["ttlMs"] > 0 && list["cacheScope"] == "public"));
  const auto called = sample.request("tools/call", stateless({{"name", "list_runs"}}))["result"];
  CHECK((called["resultType"] == "complete" && called["isError"] == false));
  const auto refused = sample.request("tools/list", stateless(Json::object(), "1900-01-01"));
  CHECK(code_of(refused) == -32022);
  CHECK(refused["error"]["data"]["requested"] == "1900-01-01");
  CHECK(refused["error"]["data"]["supported"][0] == "2026-07-28");
  CHECK(code_of(sample.request("ping", stateless(Json::object()))) == -32601);
  CHECK(code_of(sample.request("server/discover", Json::object())) == -32602);
  auto params = stateless(Json::object());
  params["_meta"].erase("io.modelcontextprotocol/clientCapabilities");
  CHECK(code_of(sample.request("tools/list", params)) == -32602);
}

TEST_CASE("mcp: malformed messages get the errors of JSON-RPC") {
  const SampleServer sample;
  const auto code = [&](const std::string& message) { return code_of(sample.answer(message)); };
  CHECK(code("{\"jsonrpc\":") == -32700);
  CHECK(code("\xff") == -32700);
  CHECK(sample.answer("nonsense")["id"].is_null());
  CHECK(code("[]") == -32600);
  CHECK(code("7") == -32600);
  CHECK(code(R"({"id":1,"method":"ping"})") == -32600);
  CHECK(code(R"({"jsonrpc":"2.0","id":1})") == -32600);
  CHECK(code(R"({"jsonrpc":"2.0","id":null,"method":"ping"})") == -32600);
  CHECK(code(R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})") == -32600);
  CHECK(code(R"({"jsonrpc":"2.0","id":1,"method":"ping","params":[]})") == -32602);
  CHECK(code(R"({"jsonrpc":"2.0","id":1,"method":"resources/list"})") == -32601);
  CHECK(code(R"({"jsonrpc":"2.0","id":1,"method":"tools/call"})") == -32602);
  CHECK(code(R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"2"}})") ==
        -32602);
  CHECK(code(std::string(100'000, '[')) == -32600);
  std::string many = "[0";
  for (int i = 0; i < 20'000; ++i) many += ",0";
  CHECK(code(R"({"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":)" + many + "]}}") == -32600);
  // Answers to requests that the server did not send.
  CHECK(sample.answer(R"({"jsonrpc":"2.0","id":1,"result":{}})").is_null());
  const auto unknown = sample.request("tools/call", {{"name", "list_run"}});
  CHECK(code_of(unknown) == -32602);
  CHECK(unknown["id"] == 7);
  CHECK(unknown["error"]["message"].get<std::string>().starts_with(
      "unknown tool 'list_run'; did you mean 'list_runs'?"));
  CHECK(sample.answer(R"({"jsonrpc":"2.0","id":"a","method":"ping"})")["id"] == "a");
}

TEST_CASE("mcp: messages are lines of bounded length") {
  SampleServer sample;
  std::vector<std::string> answers;
  const auto receive = [&](std::string_view bytes) {
    answers.clear();
    sample.server().receive(bytes, [&](const std::string& text) { answers.push_back(text); });
    return answers.size();
  };
  const std::string ping = R"({"jsonrpc":"2.0","id":1,"method":"ping"})";
  CHECK(receive(ping.substr(0, 9)) == 0);
  CHECK(receive(ping.substr(9)) == 0);
  CHECK(receive("\r\n\n  \n" + ping + "\n" + ping) == 2);
  CHECK(Json::parse(answers[1])["result"] == Json::object());
  const std::string part(100'000, 'x');
  for (int i = 0; i < 20; ++i) CHECK(receive(part) == 0);
  CHECK(receive("x\n" + ping + "\n") == 2);
  CHECK(code_of(Json::parse(answers[0])) == -32600);
  CHECK(answers[0].find("exceeds 1048576 bytes") != std::string::npos);
  CHECK(Json::parse(answers[1])["id"] == 1);
  CHECK(receive(ping) == 0);
  sample.server().finish([&](const std::string& text) { answers.push_back(text); });
  CHECK(answers.size() == 1);
}

TEST_CASE("mcp: tools are listed with the schema of their arguments") {
  const SampleServer sample;
  const auto tools = sample.request("tools/list", Json::object())["result"]["tools"];
  std::vector<std::string> names;
  for (const auto& tool : tools) {
    names.push_back(tool["name"].get<std::string>());
    CHECK(tool["annotations"]["readOnlyHint"] == true);
    CHECK(tool["inputSchema"]["type"] == "object");
    CHECK(tool["inputSchema"]["additionalProperties"] == false);
    CHECK(!tool["description"].get<std::string>().empty());
  }
  CHECK(names == std::vector<std::string>{"list_runs", "describe_run", "read_metrics",
                                          "compare_runs", "read_log", "list_alerts"});
  CHECK(tools[1]["inputSchema"]["required"] == Json({"run"}));
  CHECK(tools[2]["inputSchema"]["properties"]["points"]["maximum"] == 500);
}

TEST_CASE("mcp: tools return what the API returns") {
  const SampleServer sample;
  const auto list = sample.content("list_runs", {{"columns", {"config.optimizer.lr"}}});
  CHECK((list["matching"] == 2 && list["indexing"]["done"] == 2));
  CHECK(sample.content("list_runs", {{"limit", 1}})["runs"].size() == 1);
  const auto failed = sample.content("list_runs", {{"filter", "state = failed"}})["runs"];
  REQUIRE(failed.size() == 1);
  CHECK((failed[0]["id"] == "other-2" && failed[0]["reason"] == "disk full"));
  const auto sorted = sample.content("list_runs", {{"order", "config.optimizer.lr"},
                                                   {"columns", {"config.optimizer.lr"}}})["runs"];
  CHECK(sorted[1]["values"]["config.optimizer.lr"] == 0.2);

  const auto run = sample.content("describe_run", {{"run", "mnist"}});
  CHECK((run["id"] == "mnist-1" && run["state"] == "finished"));
  CHECK(run["config"]["optimizer"]["lr"] == 0.1);
  CHECK((run["sources"].size() == 1 && !run["sources"][0].contains("summary")));
  CHECK(run["metrics"].size() == 3);
  CHECK(sample.content("describe_run", {{"run", "mnist-1"}, {"metrics", "eval/"}})["metrics"]
            .size() == 2);
  CHECK((run["artifacts"].is_array() && run["alerts"].size() == 1));

  const auto curves = sample.content(
      "read_metrics", {{"run", "other-2"}, {"metrics", {"train/loss"}}, {"points", 20.0}});
  const auto curve = curves["series"][0];
  CHECK((curve["total"] == 1000 && curve["x"].size() <= 20 && curve["x"].size() >= 10));
  CHECK((curve["y"].front() == 0 && curve["y"].back() == 999));
  const auto part = sample.content("read_metrics", {{"run", "other-2"},
                                                    {"metrics", {"train/loss"}},
                                                    {"from", 100},
                                                    {"to", 900},
                                                    {"points", 10}})["series"][0];
  CHECK((part["in_range"] == 801 && part["x"].size() <= 10));

  const auto compared = sample.content("compare_runs", {{"runs", {"mnist-1", "other-2"}}});
  CHECK((compared["config"].size() == 1 && compared["config"][0]["key"] == "optimizer.lr"));
  CHECK(compared["config"][0]["values"] == Json({0.1, 0.2}));
  CHECK(compared["metrics"].size() == 3);
  CHECK(sample
            .content("compare_runs",
                     {{"runs", {"mnist-1", "other-2"}}, {"metrics", "loss"}})["metrics"]
            .size() == 2);
  for (const auto& metric : compared["metrics"])
    if (metric["name"] == "eval/loss") CHECK(metric["values"] == Json({0.5, nullptr}));

  CHECK(sample.content("list_alerts")["alerts"][0]["title"] == "nan");
  CHECK(sample.content("list_alerts", {{"run", "other-2"}})["alerts"].empty());
}

TEST_CASE("mcp: the logs of a run that was read are not read again to find its id") {
  const SampleServer sample(catalog::CatalogReading::OnRequest);
  for (const char* id : {"mnist-1", "other-2"}) {
    CHECK(sample.content("list_alerts", {{"run", id}})["alerts"].is_array());
    std::filesystem::remove_all(sample.run_directory(id));
  }
  CHECK(sample.content("list_alerts", {{"run", "mnist-1"}})["alerts"][0]["title"] == "nan");
  CHECK(sample.content("list_alerts", {{"run", "mnist"}})["alerts"][0]["title"] == "nan");
}

TEST_CASE("mcp: wrong arguments are one clear line") {
  const SampleServer sample;
  CHECK(sample.error("describe_run", Json::object()) == "describe_run: run: is required");
  CHECK(sample.error("describe_run", {{"run", "mnist-2"}}).find("did you mean 'mnist-1'?") !=
        std::string::npos);
  CHECK(sample.error("describe_run", {{"run", "../x"}}).starts_with("there is no run '../x' in"));
  CHECK(sample.error("list_runs", {{"limt", 1}})
            .starts_with("list_runs: limt: unknown key; did you mean 'limit'?"));
  CHECK(sample.error("list_runs", {{"limit", "1"}}) ==
        "list_runs: limit: expected an integer, got \"1\"");
  CHECK(sample.error("list_runs", {{"limit", 0}}).find("limit") != std::string::npos);
  CHECK(sample.error("list_runs", {{"filter", "stat = failed"}}).starts_with("filter, column 1: "));
  CHECK(sample.error("list_runs", {{"order", "no such"}}).find("no such") != std::string::npos);
  CHECK(sample.error("read_metrics", {{"run", "mnist-1"}, {"metrics", {"train/los"}}}) ==
        "run 'mnist-1' has no metric 'train/los'; did you mean 'train/loss'?");
  CHECK(sample.error("read_metrics",
                     {{"run", "mnist-1"}, {"metrics", {"train/loss"}}, {"sources", {"rank-5"}}}) ==
        "sources: none of rank-5 has the metric 'train/loss' of run 'mnist-1'");
  CHECK(sample.error("read_metrics", {{"run", "mnist-1"}, {"metrics", Json::array()}}) ==
        "read_metrics: metrics: expected at least one name");
  CHECK(sample.error("compare_runs", {{"runs", {"mnist-1"}}}).find("2 to 50") != std::string::npos);
  CHECK(sample.error("read_log", {{"run", "mnist-1"}, {"stream", "out"}}).find("stderr") !=
        std::string::npos);
  CHECK(sample.error("read_log", {{"run", "other-2"}}) ==
        "run 'other-2' has no log: 'lockstep launch' records what the ranks print");
}

TEST_CASE("mcp: large results are cut, and say where") {
  Json rows = Json::array();
  for (int i = 0; i < 1000; ++i) rows.push_back({{"id", i}, {"text", std::string(100, 'a')}});
  const auto cut = shortened({{"total", 1000}, {"runs", rows}}, 20'000);
  CHECK(catalog::to_text(cut).size() <= 20'000);
  CHECK(cut["runs"][0]["id"] == 0);
  CHECK(cut["runs"].size() > 100);
  CHECK(cut["cut"] == Json({"runs: the first " + std::to_string(cut["runs"].size()) + " of 1000"}));
  const auto log = shortened({{"lines", rows}}, 20'000);
  CHECK(log["lines"].back()["id"] == 999);
  CHECK(log["cut"][0].get<std::string>().starts_with("lines: the last "));
  std::string text;
  while (text.size() < 100'000) text += "\u00e4";
  const auto shorter = shortened({{"note", text}}, 20'000);
  CHECK(catalog::to_text(shorter).size() <= 20'000);
  CHECK(text.starts_with(shorter["note"].get<std::string>()));
  Json deep = {{"config", Json::object()}};
  for (int i = 0; i < 5000; ++i) deep["config"]["key" + std::to_string(i)] = i;
  CHECK(catalog::to_text(shortened(deep, 20'000)).size() <= 20'000);
  CHECK(shortened({{"a", 1}}, 20'000) == Json{{"a", 1}});
}
