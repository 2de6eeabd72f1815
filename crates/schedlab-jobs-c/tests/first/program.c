/* A program of the first header: it has no member that came later. Prints what ended. */
#include "schedlab_jobs.h"

#include <stdio.h>

static int twice(void *data, schedlab_context *context) {
  *(int *)data *= 2;
  return schedlab_context_worker(context) < 2 ? SCHEDLAB_DONE : SCHEDLAB_FAILED;
}

static int fails(void *data, schedlab_context *context) {
  (void)data, (void)context;
  return SCHEDLAB_FAILED;
}

int main(void) {
  int values[3] = {1, 2, 3};
  schedlab_pool_options options = {.size = sizeof options, .workers = 2, .name = "first"};
  schedlab_counts counts = {.size = sizeof counts};
  schedlab_posting jobs[3];
  schedlab_link links[2] = {{0, 1}, {1, 2}};
  schedlab_handle *handles[3], *failed, *after;
  schedlab_pool *pool = schedlab_pool_start(&options);
  if (!pool || schedlab_jobs_abi() != SCHEDLAB_JOBS_ABI) return 1;
  for (int at = 0; at < 3; at++)
    jobs[at] = (schedlab_posting){.size = sizeof jobs[at], .run = twice, .data = &values[at], .expected_ns = 1000};
  jobs[2].deadline_ns = schedlab_pool_now(pool) + 60000000000u;
  if (schedlab_post_batch(pool, jobs, 3, links, 2, handles) != SCHEDLAB_OK) return 2;
  if (schedlab_handle_wait(handles[2], UINT64_MAX) != SCHEDLAB_OK) return 3;
  for (int at = 0; at < 3; at++) schedlab_handle_release(handles[at]);
  schedlab_posting bad = {.size = sizeof bad, .run = fails};
  if (schedlab_post(pool, &bad, NULL, 0, &failed) != SCHEDLAB_OK) return 4;
  if (schedlab_post(pool, &jobs[0], &failed, 1, &after) != SCHEDLAB_OK) return 5;
  if (schedlab_handle_wait(after, UINT64_MAX) != SCHEDLAB_OK) return 6;
  if (schedlab_handle_state(after) != SCHEDLAB_STATE_DEPENDENCY_FAILED) return 7;
  schedlab_handle_release(failed), schedlab_handle_release(after);
  if (schedlab_pool_stop(pool, UINT64_MAX, &counts) != SCHEDLAB_OK) return 8;
  printf("%d %d %d; done %d, failed %d, dropped %d\n", values[0], values[1], values[2], (int)counts.done,
         (int)counts.failed, (int)counts.dependency_failed);
  return 0;
}
