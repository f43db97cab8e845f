// The one translation unit that compiles Catch2's main, linked into every test binary.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
