// Answers of the dashboard as HTTP.
#pragma once

#include "dashboard/api/api.h"
#include "dashboard/api/assets.h"
#include "dashboard/server/bounded_server.h"

namespace lockstep::dashboard {

// Packed for clients that take it so; "not modified" for those who have it.
void send_asset(const Asset& asset, const httplib::Request& request, httplib::Response& response);

// Texts to be shown are packed by gzip where the client takes it; files and downloads are not.
void send(ApiResponse answer, const httplib::Request& request, httplib::Response& response);

}  // namespace lockstep::dashboard
