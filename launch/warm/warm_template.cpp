#include "launch/warm/warm_template.h"

#include "launch/warm/template_process.h"
#include "launch/workers/process_message.h"
#include "launch/workers/worker_env.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr std::chrono::seconds kStartLimit(10);  // it may still be loading LibTorch

}  // namespace

WarmTemplate::WarmTemplate(const std::string& trainer, int num_workers, const std::string& label)
    : num_workers_(num_workers) {
  try {
    auto [own_end, other_end] = connected_sockets();
    link_ = std::move(own_end);
    process_.emplace(ChildCommand{.program = trainer,
                                  .arguments = {kTemplateOption, std::to_string(other_end.get()),
                                                label, std::string(kCommandLineSpace, ' ')},
                                  .environment = template_environment(num_workers),
                                  .inherited_fds = {other_end.get()}});
  } catch (const Error&) {  // without it, starts only take longer
    process_.reset();
  }
}

std::optional<ChildProcess> WarmTemplate::start(const ChildCommand& launcher) {
  if (!process_) return std::nullopt;
  auto [own_end, other_end] = connected_sockets();
  ProcessMessage request{
      .words = launcher.arguments, .environment = launcher.environment, .numbers = {num_workers_}};
  request.words.insert(request.words.begin(), launcher.program);
  const bool is_sent =
      send_message(link_.get(), request, {launcher.stdout_fd, launcher.stderr_fd, other_end.get()});
  other_end.close();
  // The template tells the id of the new process, which waits for an answer: it does nothing that is
  // not known here.
  if (is_sent)
    if (auto process = adopt_new(kStartLimit); process && send_message(own_end.get(), {}))
      return process;
  process_.reset();
  adopt_new(std::chrono::seconds(0));  // reaps one that the template has forked too late
  return std::nullopt;
}

std::optional<ChildProcess> WarmTemplate::adopt_new(std::chrono::seconds limit) {
  const auto forked = receive_message(link_.get(), limit);
  if (!forked || forked->numbers.size() != 1) return std::nullopt;
  return ChildProcess::adopt(forked->numbers.front());
}

}  // namespace lockstep::launch
