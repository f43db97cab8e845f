// SIGINT and SIGTERM: the first one stops a run, a second one ends the process at once.
#pragma once

#include "kime/job/stop.h"

namespace kime::app {

/// Sends the first SIGINT or SIGTERM to `stop`, which outlives the process's other work.
void stop_on_signals(Stop& stop);
/// The signal that came, or 0.
[[nodiscard]] int signal_received();

}  // namespace kime::app
