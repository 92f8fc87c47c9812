#include "dashboard/api/receive.h"

#include <fmt/format.h>

#include "core/number_text.h"
#include "lockstep/error.h"

namespace lockstep::dashboard {
namespace {

using tracking::RunReceiver;

struct CollectRequest {
  const ApiRequest& request;
  RunReceiver::Request run;
  std::string name;  // of the file: "run.json", "ends/launcher-00000.json"
};

ApiResponse receive_log(RunReceiver& receiver, const CollectRequest& collect) {
  const auto& request = collect.request;
  if (request.method == "GET")
    return json_response(to_json(receiver.log(collect.run, collect.name)));
  const auto offset = parse_number<uint64_t>(request.param("offset").value_or(""));
  if (request.method != "POST" || !offset)
    throw bad_request("a log is appended to with POST and an offset");
  const auto appended = receiver.append(collect.run, collect.name, request.body, *offset);
  auto response = json_response(to_json(appended.copy));
  if (!appended.fits) response.status = 409;
  return response;
}

ApiResponse receive_file(RunReceiver& receiver, const CollectRequest& collect) {
  const auto& request = collect.request;
  if (request.method == "DELETE")
    receiver.remove_file(collect.run, collect.name);
  else if (request.method == "PUT")
    receiver.put_file(collect.run, collect.name, request.body,
                      request.param("sha256").value_or(""));
  else
    throw bad_request("a file is replaced with PUT or removed with DELETE");
  return json_response({{"ok", true}});
}

ApiResponse dispatch_received(RunReceiver& receiver, const ApiRequest& request,
                              const std::string& sender) {
  const auto parts = path_parts(request.path);  // api, collect, RUN, ...
  if (parts.size() < 3) throw not_found("no such resource");
  CollectRequest collect{
      .request = request, .run = {.run = parts[2], .sender = sender}, .name = ""};
  if (parts.size() == 3 && request.method == "GET")
    return json_response({{"files", receiver.files(collect.run)}});
  if (parts.size() == 4 && parts[3] == "end" && request.method == "POST") {
    receiver.end(collect.run);
    return json_response({{"ok", true}});
  }
  for (size_t i = 4; i < parts.size(); ++i) collect.name += (i > 4 ? "/" : "") + parts[i];
  if (parts.size() > 4 && parts[3] == "logs") return receive_log(receiver, collect);
  if (parts.size() > 4 && parts[3] == "files") return receive_file(receiver, collect);
  throw not_found("no such resource");
}

const char* code_of(int status) {
  switch (status) {
    case 409: return "conflict";
    case 413: return "too_large";
    case 507: return "no_space";
    default: return "bad_request";
  }
}

}  // namespace

ApiResponse handle_received(RunReceiver& receiver, const ApiRequest& request,
                            const std::string& sender) {
  try {
    return dispatch_received(receiver, request, sender);
  } catch (const ApiError& error) {
    return error.response();
  } catch (const tracking::Refusal& refusal) {
    return ApiError(refusal.status, code_of(refusal.status), refusal.what()).response();
  } catch (const Error& error) {
    return ApiError(503, "unavailable", error.what()).response();  // senders retry
  } catch (const std::exception& error) {
    return ApiError(500, "internal", fmt::format("internal error: {}", error.what())).response();
  }
}

}  // namespace lockstep::dashboard
