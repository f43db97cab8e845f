// Counts what operator new hands out in this test binary.
#pragma once

#include <cstddef>

/// How many allocations there have been so far.
std::size_t allocations();
