// `lockstep doctor s3://bucket/prefix`: whether this machine can use a bucket, an HTTP server or a
// repository, and how fast.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::trainer {

// `words`: the path of a prefix or object, with options after "?"; the timeout of all checks in seconds;
// "text" or "json". Prints a line after each check, or the array at the end. Returns the exit code: 75
// if there is a problem. Ends early if a check makes the others pointless; after the timeout, the one that has
// not ended is a problem. Writes one object below the prefix, and removes it: also after the timeout,
// SIGINT and SIGTERM, for at most 10 s.
//
// Once per process, which then has to end without calling destructors: after a timeout, a thread
// still waits for the server. Throws Config for an invalid path.
int check_store(const std::vector<std::string>& words,
                const std::function<void(const std::string&)>& print);

}  // namespace lockstep::trainer
