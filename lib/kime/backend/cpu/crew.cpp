#include "kime/backend/cpu/crew.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "kernels/cpu/fp_scope.h"

namespace kime::cpu {

namespace {

// How long a thread looks before it sleeps: about what waking it would cost.
constexpr std::chrono::microseconds kPatience{30};

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Returns once `state` is no longer `from` (and what was written before it changed is visible): looks for a while, then sleeps.
std::uint32_t wait_while(const std::atomic<std::uint32_t>& state, std::uint32_t from) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    for (int i = 0; i < 64; ++i) {
      if (const std::uint32_t now = state.load(std::memory_order_acquire); now != from) {
        return now;
      }
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  state.wait(from, std::memory_order_acquire);
  return state.load(std::memory_order_acquire);
}

// Changes a state and wakes who sleeps on it. Sequentially consistent, and so a full barrier: with less, the look at whether anybody
// sleeps may come before the change is visible, and a thread that is just lying down sleeps on.
void set(std::atomic<std::uint32_t>& state, std::uint32_t to) {
  state.store(to, std::memory_order_seq_cst);
  state.notify_all();
}

}  // namespace

Crew::Crew(std::size_t threads) {
  const std::size_t wanted = threads > 1 ? threads - 1 : 0;
  crew_ = std::make_unique<Helper[]>(wanted);
  try {
    while (helpers_ < wanted) {
      Helper& helper = crew_[helpers_];
      helper.thread = std::thread([&helper] { help(helper); });
      ++helpers_;
    }
  } catch (const std::system_error&) {
    // Fewer threads than asked for: the others, and in the end the callers, do the work.
  }
}

Crew::~Crew() {
  for (std::size_t i = 0; i < helpers_; ++i) {
    set(crew_[i].state, stopped);
    crew_[i].thread.join();
  }
}

void Crew::work(Job& job, std::size_t worker) {
  for (std::size_t chunk = job.next.fetch_add(1, std::memory_order_relaxed); chunk < job.chunks;
       chunk = job.next.fetch_add(1, std::memory_order_relaxed)) {
    job.call(job.context, chunk, worker);
  }
}

void Crew::help(Helper& helper) {
  const kernels::FpScope fp;  // for the thread's life: it runs nothing but kernels
  std::uint32_t state = helper.state.load(std::memory_order_acquire);
  while (state != stopped) {
    if (state != posted) {
      state = wait_while(helper.state, state);
    } else if (helper.state.compare_exchange_strong(state, running, std::memory_order_acquire)) {
      work(*helper.job, helper.worker);
      set(helper.state, done);
      state = done;
    }
  }
}

void Crew::share(Job& job, std::size_t width) const {
  Helper* joined = nullptr;
  std::size_t workers = 1;
  for (std::size_t i = 0; i < helpers_ && workers < width; ++i) {
    Helper& helper = crew_[i];
    std::uint32_t state = idle;
    if (helper.state.load(std::memory_order_relaxed) == idle &&
        helper.state.compare_exchange_strong(state, claimed, std::memory_order_acquire)) {
      helper.job = &job;
      helper.worker = workers++;
      helper.next = std::exchange(joined, &helper);
      set(helper.state, posted);
    }
  }
  work(job, 0);
  while (joined != nullptr) {
    Helper& helper = *std::exchange(joined, joined->next);
    // A helper that has not woken up yet is not waited for: the work is done.
    std::uint32_t state = posted;
    if (!helper.state.compare_exchange_strong(state, idle, std::memory_order_acq_rel)) {
      if (state == running) {
        wait_while(helper.state, running);
      }
      helper.state.store(idle, std::memory_order_release);
    }
  }
}

}  // namespace kime::cpu
