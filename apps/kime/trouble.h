// How `compare` and `report` end where files cannot be used.
#pragma once

#include "kime/results/score_reader.h"

namespace kime::app {

/// Prints what it is, unless a signal ended the run; the exit status.
int fail(const ResultsTrouble& trouble);

}  // namespace kime::app
