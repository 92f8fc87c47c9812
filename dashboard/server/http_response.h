// Sends the responses of the dashboard over HTTP.
#pragma once

#include "dashboard/api/api.h"
#include "dashboard/api/assets.h"
#include "dashboard/server/bounded_server.h"

namespace lockstep::dashboard {

// Compressed if the client accepts gzip; 304 if the client has the current version.
void send_asset(const Asset& asset, const httplib::Request& request, httplib::Response& response);

// Compresses text bodies with gzip if the client accepts it; files and downloads are not
// compressed.
void send(ApiResponse api_response, const httplib::Request& request, httplib::Response& response);

}  // namespace lockstep::dashboard
