// Runs the ranks of a test as threads of one process.
#pragma once

#include <exception>
#include <thread>
#include <vector>

namespace lockstep::distributed {

// Runs body(rank) on one thread per rank. Returns the exception of each rank, or null.
template <class Body>
std::vector<std::exception_ptr> run_threads(int num_ranks, Body&& body) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(num_ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < num_ranks; ++rank)
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (...) {
          errors[static_cast<size_t>(rank)] = std::current_exception();
        }
      });
  }
  return errors;
}

}  // namespace lockstep::distributed
