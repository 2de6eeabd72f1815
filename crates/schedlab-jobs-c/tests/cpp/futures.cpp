// Futures and requests of schedlab_jobs.hpp: values, exceptions, cancellation, times. Each check that fails is printed.
#include "schedlab_jobs.hpp"

#include <atomic>
#include <cstdio>
#include <stdexcept>

using namespace std::chrono_literals;

namespace {
int failed = 0;

void check(bool holds, const char *what) {
  if (holds) return;
  std::printf("not so: %s\n", what);
  ++failed;
}

// The code of the job_error that a future throws, or 0.
template <class T> int code_of(schedlab::future<T> &future) {
  try {
    future.get();
    return 0;
  } catch (const schedlab::job_error &error) {
    return error.code();
  }
}
} // namespace

int main() {
  schedlab::pool pool(2);
  auto moved = pool.spawn([] { return std::make_unique<int>(7); });
  check(*moved.get() == 7, "a value that can only be moved comes out of its future");
  std::atomic<int> ran{0};
  auto nothing = pool.spawn([&ran] { ++ran; });
  nothing.get();
  check(ran == 1, "a job without a value ends");

  auto thrower = pool.spawn([]() -> int { throw std::out_of_range("seven"); });
  auto after = pool.spawn([&ran] { ++ran; }, schedlab::request().after(thrower));
  check(code_of(after) == SCHEDLAB_STATE_DEPENDENCY_FAILED, "what depends on a job that threw is dropped");
  try {
    thrower.get();
    check(false, "an exception comes out of its future");
  } catch (const std::out_of_range &error) {
    check(error.what() == std::string("seven"), "it is the one that was thrown");
  }

  schedlab::request request;
  {
    auto before = pool.spawn([&ran] { ++ran; });
    request.after(before);
  }
  pool.spawn([&ran] { ++ran; }, request).get();
  check(ran == 3, "a request outlives the futures that it names");

  auto in_an_hour = pool.spawn([&ran] { ++ran; }, schedlab::request().start(pool.now() + 1h));
  check(!in_an_hour.wait_for(1ms) && !in_an_hour.wait_for(-1ms), "a wait ends with its patience");
  check(in_an_hour.cancel(), "a job that has not started is cancelled");
  check(code_of(in_an_hour) == SCHEDLAB_STATE_CANCELLED, "its future says so");

  schedlab_pool_options options{};
  options.workers = 1;
  options.late = SCHEDLAB_LATE_DROP;
  schedlab::pool strict(options);
  auto late = strict.spawn([&ran] { ++ran; }, schedlab::request().deadline(-1s));
  check(code_of(late) == SCHEDLAB_STATE_TOO_LATE, "a deadline before the pool's start has passed");
  options.workers = 5000;
  try {
    schedlab::pool refused(options);
    check(false, "options that mean nothing are refused");
  } catch (const schedlab::job_error &) {
  }
  std::printf("%d checks failed\n", failed);
  return failed;
}
