// A render loop on schedlab's pool: frames with deadlines, effects that depend on them, reading that goes on elsewhere.
//
//     cargo build -p schedlab-jobs-c --release
//     g++ -std=c++17 -I crates/schedlab-jobs-c/include examples/pool/frames.cpp -o frames
//         -L target/release -lschedlab_jobs_c -Wl,-rpath,target/release -pthread   (on one line)

#include <schedlab_jobs.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace {

constexpr uint64_t ms = 1'000'000;

// A job that is a C++ closure: the pool owns it, and drops it once.
using Closure = std::function<int(schedlab_context *)>;

schedlab_posting posting(Closure closure, uint64_t start_ns) {
  schedlab_posting posting{};
  posting.data = new Closure(std::move(closure));
  posting.run = [](void *data, schedlab_context *context) {
    return (*static_cast<Closure *>(data))(context);
  };
  posting.drop = [](void *data) { delete static_cast<Closure *>(data); };
  posting.start_ns = start_ns;
  posting.deadline_ns = SCHEDLAB_NEVER;
  posting.significance = SCHEDLAB_NORMAL;
  return posting;
}

schedlab_job post(schedlab_pool *pool, const schedlab_posting &posting,
                  const std::vector<schedlab_job> &after = {}) {
  schedlab_job id = 0;
  if (schedlab_post(pool, &posting, after.data(), after.size(), &id) != SCHEDLAB_OK) {
    posting.drop(posting.data);
    std::fprintf(stderr, "the pool takes no more\n");
  }
  return id;
}

int failures = 0;

void check(bool holds, const char *claim) {
  std::printf("%s: %s\n", holds ? "ok" : "NOT OK", claim);
  failures += holds ? 0 : 1;
}

} // namespace

int main() {
  if (schedlab_jobs_abi() != SCHEDLAB_JOBS_ABI) {
    std::fprintf(stderr, "the library has version %u of the interface\n", schedlab_jobs_abi());
    return 2;
  }
  schedlab_pool_options options{};
  options.workers = 2;
  options.reserve = 1;
  options.order = SCHEDLAB_ORDER_DEADLINE;
  schedlab_pool *pool = schedlab_pool_start(&options);
  if (pool == nullptr) {
    return 2;
  }

  // Reading goes on in a thread of its own; the frame behind it waits for its end, and the display for the frame.
  std::atomic<int> order{0};
  std::atomic<int> read{0}, rendered{0}, shown{0};
  std::thread device;
  const uint64_t now = schedlab_pool_now(pool);
  const schedlab_job reading = post(pool, posting(
      [&](schedlab_context *context) {
        schedlab_completion *completion = schedlab_context_completion(context);
        device = std::thread([&, completion] {
          read = ++order;
          schedlab_complete(completion);
        });
        return SCHEDLAB_PENDING;
      },
      now));
  const schedlab_job frame =
      post(pool, posting([&](schedlab_context *) { return rendered = ++order, SCHEDLAB_DONE; }, now), {reading});
  schedlab_posting display =
      posting([&](schedlab_context *) { return shown = ++order, SCHEDLAB_DONE; }, now + 2 * ms);
  display.significance = SCHEDLAB_COMPULSORY;
  display.deadline_ns = now + 60'000 * ms;
  const schedlab_job displayed = post(pool, display, {frame});

  // What fails takes along what depends on it, whenever that is posted.
  std::atomic<bool> never{false};
  const schedlab_job broken = post(pool, posting(
      [](schedlab_context *context) {
        schedlab_fail(schedlab_context_completion(context));
        return SCHEDLAB_PENDING;
      },
      now));
  const schedlab_job dependent =
      post(pool, posting([&](schedlab_context *) { return never = true, SCHEDLAB_DONE; }, now), {broken});

  // A preview that nobody waits for any more, and a stream that is switched off.
  const schedlab_job preview =
      post(pool, posting([&](schedlab_context *) { return never = true, SCHEDLAB_DONE; }, now + 3'600'000 * ms));
  check(schedlab_fate(pool, preview) == SCHEDLAB_FATE_LIVE, "a job that has not started is live");
  check(schedlab_cancel(pool, preview) == 1 && schedlab_cancel(pool, preview) == 0, "it is cancelled once");
  for (int i = 0; i < 3; ++i) {
    schedlab_posting thumbnail = posting([&](schedlab_context *) { return never = true, SCHEDLAB_DONE; },
                                         now + 3'600'000 * ms);
    thumbnail.stream = 7;
    thumbnail.significance = SCHEDLAB_OPTIONAL;
    post(pool, thumbnail);
  }
  check(schedlab_stream_off(pool, 7) == 3, "a stream is dropped as a whole");

  check(schedlab_pool_wait(pool, 60'000 * ms) == SCHEDLAB_OK, "all jobs end");
  device.join();
  check(read == 1 && rendered == 2 && shown == 3, "dependents wait for what goes on elsewhere");
  check(schedlab_fate(pool, displayed) == SCHEDLAB_FATE_DONE, "the compulsory job is done");
  check(schedlab_fate(pool, dependent) == SCHEDLAB_FATE_FAILED && !never, "what depends on a failed job never runs");
  check(post(pool, posting([&](schedlab_context *) { return never = true, SCHEDLAB_DONE; }, 0), {broken}) != 0,
        "a job may be posted after one that has failed");
  schedlab_posting wrong = posting([](schedlab_context *) { return SCHEDLAB_DONE; }, 0);
  wrong.significance = 9;
  check(schedlab_post(pool, &wrong, nullptr, 0, nullptr) == SCHEDLAB_INVALID, "a wrong value is refused");
  wrong.drop(wrong.data);

  schedlab_counts counts{};
  check(schedlab_pool_stop(pool, 60'000 * ms, &counts) == SCHEDLAB_OK, "the pool stops");
  check(counts.done == 3 && counts.failed == 1 && counts.abandoned == 2 && counts.cancelled == 4,
        "every job is counted once");
  check(counts.posted == 10 && !never, "and none was lost");
  return failures == 0 ? 0 : 1;
}
