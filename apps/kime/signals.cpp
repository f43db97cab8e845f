#include "signals.h"

#include <atomic>
#include <csignal>

namespace kime::app {

namespace {

// A signal handler reaches nothing but globals.
std::atomic<Stop*> stop_to_request = nullptr;
std::atomic<int> received = 0;

void handle(int signal) {
  received.store(signal, std::memory_order_relaxed);
  if (Stop* stop = stop_to_request.load(std::memory_order_relaxed)) {
    stop->request();
  }
}

}  // namespace

void stop_on_signals(Stop& stop) {
  stop_to_request.store(&stop, std::memory_order_relaxed);
  struct sigaction action = {};
  action.sa_handler = handle;
  // Back to the default once it has come: a second signal ends the process. Reads go on; the stop's descriptor wakes those that wait.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int signal_received() {
  return received.load(std::memory_order_relaxed);
}

}  // namespace kime::app
