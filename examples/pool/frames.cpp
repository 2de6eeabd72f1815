// Plays 25 frames a second: decode, filter and encode, each frame with a deadline, beside a noisy load.
#include "schedlab_jobs.hpp"

#include <atomic>
#include <cstdio>

using namespace std::chrono_literals;
using schedlab::nanoseconds;

namespace {
constexpr int frames = 25;
std::atomic<bool> playing{true};
std::atomic<long> noise{0};

void compute(nanoseconds time) {
  auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Small jobs that post themselves for as long as the film plays.
void make_noise(const schedlab::pool &pool) {
  if (!playing) return;
  compute(200us);
  ++noise;
  pool.spawn([&pool] { make_noise(pool); });
}
} // namespace

int main() {
  schedlab_pool_options options{};
  options.workers = 2;
  options.late = SCHEDLAB_LATE_RUN;
  options.name = "film";
  schedlab::pool pool(options);
  for (int i = 0; i < 2; ++i) pool.spawn([&pool] { make_noise(pool); });

  std::vector<schedlab::future<int>> film;
  nanoseconds begin = pool.now() + 20ms;
  for (int frame = 0; frame < frames; ++frame) {
    nanoseconds start = begin + frame * 40ms;
    auto stage = [&](nanoseconds expected) { return schedlab::request().start(start).expected(expected); };
    auto decode = pool.spawn([frame] { compute(3ms); if (frame == 7) throw "broken frame"; }, stage(3ms));
    auto filter = pool.spawn([] { compute(4ms); }, stage(4ms).after(decode));
    // The deadline of the last stage orders the ones before.
    film.push_back(pool.spawn([frame] { compute(2ms); return frame; },
                              stage(2ms).deadline(start + 40ms).after(filter)));
  }

  int shown = 0, lost = 0;
  for (auto &frame : film) {
    try {
      frame.get();
      ++shown;
    } catch (const schedlab::job_error &error) {
      lost += error.code() == SCHEDLAB_STATE_DEPENDENCY_FAILED;
    }
  }
  playing = false;
  pool.wait();
  schedlab_counts counts = pool.counts();
  std::printf("%d frames shown, %d lost with a broken one, %lu ended late, %ld jobs of noise\n", shown, lost,
              static_cast<unsigned long>(counts.late_starts + counts.ended_late), noise.load());
  bool all = counts.posted == counts.done + counts.failed + counts.dependency_failed;
  return shown == frames - 1 && lost == 1 && counts.failed == 1 && all && noise > 0 ? 0 : 1;
}
