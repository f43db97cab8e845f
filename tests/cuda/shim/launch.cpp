#include "tests/cuda/shim/launch.h"

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "tests/cuda/shim/block.h"

namespace kime::cuda::shim {

namespace {

std::map<std::string, Kernel, std::less<>>& all() {
  static std::map<std::string, Kernel, std::less<>> kernels;
  return kernels;
}

Elsewhere& elsewhere_of_all() {
  static Elsewhere elsewhere;
  return elsewhere;
}

}  // namespace

void run_grid(std::string_view kernel, dim3 grid, dim3 block, std::size_t shared_bytes, std::uint64_t seed,
              const std::function<void()>& body) {
  std::vector<std::size_t> order(std::size_t{grid.x} * grid.y * grid.z);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(seed);
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random() % i]);
  }
  Block runner(kernel, grid, block, shared_bytes, seed, body);
  for (const std::size_t i : order) {
    runner.run({static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y), static_cast<unsigned>(i / grid.x / grid.y)});
  }
}

void Kernel::launch(dim3 grid, dim3 block, std::size_t shared_bytes, const void* params, std::uint64_t seed) const {
  if (std::size_t{block.x} * block.y * block.z > most_threads) {
    throw Fault(fmt::format("kernel {}: {} threads a block, compiled for at most {}", name, std::size_t{block.x} * block.y * block.z,
                            most_threads));
  }
  if (const auto& elsewhere = elsewhere_of_all()) {
    elsewhere(*this, grid, block, shared_bytes, params);
    return;
  }
  run_grid(name, grid, block, shared_bytes, seed, [&] { call(params); });
}

void launch_elsewhere(Elsewhere elsewhere) {
  elsewhere_of_all() = std::move(elsewhere);
}

const Kernel* find_kernel(std::string_view name) {
  const auto found = all().find(name);
  return found == all().end() ? nullptr : &found->second;
}

std::vector<const Kernel*> kernels() {
  std::vector<const Kernel*> list;
  for (const auto& [name, kernel] : all()) {
    list.push_back(&kernel);
  }
  return list;
}

void Registered::add(Kernel kernel) {
  std::string name = kernel.name;
  all().emplace(std::move(name), std::move(kernel));
}

}  // namespace kime::cuda::shim
