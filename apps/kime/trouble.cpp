#include "trouble.h"

#include "command.h"
#include "signals.h"

namespace kime::app {

int fail(const ResultsTrouble& trouble) {
  switch (trouble.kind) {
    case ResultsTrouble::Kind::stopped:
      return 128 + signal_received();
    case ResultsTrouble::Kind::lost:
      return fail(trouble.message, kLost);
    case ResultsTrouble::Kind::unusable:
      break;
  }
  return fail(trouble.message);
}

}  // namespace kime::app
