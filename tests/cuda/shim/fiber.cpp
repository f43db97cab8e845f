#include "tests/cuda/shim/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>

// Of x86-64 the switch is our own: swapcontext makes two system calls each time. KIME_FIBER_UCONTEXT takes that one all the same.
#if defined(__x86_64__) && !defined(KIME_FIBER_UCONTEXT)
#define KIME_FIBER_OWN_SWITCH
#else
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define KIME_FIBER_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KIME_FIBER_ASAN
#endif
#if __has_feature(thread_sanitizer)
#define KIME_FIBER_TSAN
#endif
#endif
#if defined(KIME_FIBER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(KIME_FIBER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(KIME_FIBER_OWN_SWITCH)
// Saves what a call must keep on the stack, and the stack; takes up another.
extern "C" void kime_fiber_switch(void** from, void* to);
asm(R"(
.text
.globl kime_fiber_switch
.type kime_fiber_switch, @function
kime_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size kime_fiber_switch, .-kime_fiber_switch
)");
#endif

namespace kime::cuda::shim {

namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;  // touched only as far as a kernel's frames reach
constexpr std::size_t kGuardBytes = std::size_t{16} << 10;

thread_local Fiber* current = nullptr;

}  // namespace

struct Fiber::Context {
  std::byte* memory = nullptr;
#if defined(KIME_FIBER_OWN_SWITCH)
  void* own = nullptr;
  void* resumer = nullptr;
#else
  ucontext_t own;
  ucontext_t resumer;
#endif
#if defined(KIME_FIBER_ASAN)
  void* own_fakes = nullptr;
  void* resumer_fakes = nullptr;
  const void* resumer_stack = nullptr;
  std::size_t resumer_bytes = 0;
#endif
#if defined(KIME_FIBER_TSAN)
  void* own_shadow = nullptr;
  void* resumer_shadow = nullptr;
#endif

  [[nodiscard]] std::byte* stack() const {
    return memory + kGuardBytes;
  }

  void enter() {
#if defined(KIME_FIBER_ASAN)
    __sanitizer_start_switch_fiber(&resumer_fakes, stack(), kStackBytes);
#endif
#if defined(KIME_FIBER_TSAN)
    resumer_shadow = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(own_shadow, 0);
#endif
#if defined(KIME_FIBER_OWN_SWITCH)
    kime_fiber_switch(&resumer, own);
#else
    swapcontext(&resumer, &own);
#endif
#if defined(KIME_FIBER_ASAN)
    __sanitizer_finish_switch_fiber(resumer_fakes, nullptr, nullptr);
#endif
  }

  void leave() {
#if defined(KIME_FIBER_ASAN)
    __sanitizer_start_switch_fiber(&own_fakes, resumer_stack, resumer_bytes);
#endif
#if defined(KIME_FIBER_TSAN)
    __tsan_switch_to_fiber(resumer_shadow, 0);
#endif
#if defined(KIME_FIBER_OWN_SWITCH)
    kime_fiber_switch(&own, resumer);
#else
    swapcontext(&own, &resumer);
#endif
    arrived();
  }

  void arrived() {
#if defined(KIME_FIBER_ASAN)
    __sanitizer_finish_switch_fiber(own_fakes, &resumer_stack, &resumer_bytes);
#endif
  }
};

Fiber::Fiber() : context_(std::make_unique<Context>()) {
  void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0) {
    throw std::bad_alloc();
  }
  context_->memory = static_cast<std::byte*>(memory);
  prepare();
}

Fiber::~Fiber() {
#if defined(KIME_FIBER_TSAN)
  __tsan_destroy_fiber(context_->own_shadow);
#endif
  munmap(context_->memory, kGuardBytes + kStackBytes);
}

// A fresh stack on which loop() begins.
void Fiber::prepare() {
#if defined(KIME_FIBER_ASAN)
  __asan_unpoison_memory_region(context_->stack(), kStackBytes);
  context_->own_fakes = nullptr;
#endif
#if defined(KIME_FIBER_TSAN)
  if (context_->own_shadow != nullptr) {
    __tsan_destroy_fiber(context_->own_shadow);
  }
  context_->own_shadow = __tsan_create_fiber(0);
#endif
#if defined(KIME_FIBER_OWN_SWITCH)
  auto** top = reinterpret_cast<void**>(context_->stack() + kStackBytes);
  *--top = nullptr;  // where loop() would return to: it never does, and the stack is aligned as after a call
  *--top = reinterpret_cast<void*>(&Fiber::loop);
  for (int i = 0; i < 6; ++i) {
    *--top = nullptr;
  }
  context_->own = top;
#else
  getcontext(&context_->own);
  context_->own.uc_stack.ss_sp = context_->stack();
  context_->own.uc_stack.ss_size = kStackBytes;
  context_->own.uc_link = nullptr;
  makecontext(&context_->own, &Fiber::loop, 0);
#endif
}

void Fiber::loop() {
  Fiber* self = current;
  self->context_->arrived();
  for (;;) {
    (*self->body_)();
    self->body_ = nullptr;
    self->context_->leave();
  }
}

void Fiber::start(const std::function<void()>* body) {
  if (running()) {
    prepare();
  }
  body_ = body;
}

void Fiber::resume() {
  Fiber* before = current;
  current = this;
  context_->enter();
  current = before;
}

void Fiber::suspend() {
  current->context_->leave();
}

}  // namespace kime::cuda::shim
