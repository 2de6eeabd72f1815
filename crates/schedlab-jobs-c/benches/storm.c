/* A storm of posters through the C interface: `storm POSTERS WORKERS MILLISECONDS`. Prints the jobs that were done
 * while posters posted, the jobs that the pool took, the refusals, the spans of 250 ms in which workers had CPU time, and
 * those of them in which no job was done. */
#define _GNU_SOURCE
#include "schedlab_jobs.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static schedlab_pool *pool;
static atomic_ulong done;
static atomic_bool over;

static int count(void *data, schedlab_context *context) {
  (void)data, (void)context;
  atomic_fetch_add_explicit(&done, 1, memory_order_relaxed);
  return SCHEDLAB_DONE;
}

struct poster {
  pthread_t thread;
  unsigned long posted, refused;
};

static void *post(void *data) {
  struct poster *self = data;
  const schedlab_posting posting = {.size = sizeof posting, .run = count};
  while (!atomic_load_explicit(&over, memory_order_relaxed)) {
    if (schedlab_post(pool, &posting, NULL, 0, NULL) == SCHEDLAB_OK) {
      self->posted++;
    } else {
      self->refused++;
      sched_yield();
    }
  }
  return NULL;
}

/* For how long the workers have run on CPUs, in nanoseconds. The pool names their threads. */
static unsigned long long workers_ran(void) {
  unsigned long long sum = 0;
  DIR *all = opendir("/proc/self/task");
  for (struct dirent *thread; all != NULL && (thread = readdir(all)) != NULL;) {
    char path[300], name[16] = "";
    unsigned long long ran = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", thread->d_name);
    FILE *file = fopen(path, "r");
    if (file == NULL)
      continue;
    const int is_worker = fscanf(file, "%15s", name) == 1 && strncmp(name, "worker", 6) == 0;
    fclose(file);
    snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", thread->d_name);
    file = is_worker ? fopen(path, "r") : NULL;
    if (file == NULL)
      continue;
    if (fscanf(file, "%llu", &ran) == 1)
      sum += ran;
    fclose(file);
  }
  if (all != NULL)
    closedir(all);
  return sum;
}

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  const int posters = atoi(argv[1]), spans = atoi(argv[3]) / 250;
  const schedlab_pool_options options = {.size = sizeof options, .workers = (uint32_t)atoi(argv[2])};
  struct poster *all = calloc((size_t)posters, sizeof *all);
  pool = schedlab_pool_start(&options);
  if (pool == NULL || all == NULL)
    return 1;
  for (int poster = 0; poster < posters; poster++)
    if (pthread_create(&all[poster].thread, NULL, post, &all[poster]) != 0)
      return 1;
  int with_cpu = 0, stood_still = 0;
  unsigned long while_posting = 0;
  for (int span = 0; span < spans; span++) {
    const unsigned long long ran = workers_ran();
    const struct timespec time = {.tv_nsec = 250000000};
    nanosleep(&time, NULL);
    const unsigned long now = atomic_load(&done);
    const int progress = now > while_posting;
    const int had_cpu = progress || workers_ran() > ran;
    with_cpu += had_cpu;
    stood_still += had_cpu && !progress;
    while_posting = now;
  }
  atomic_store(&over, true);
  unsigned long posted = 0, refused = 0;
  for (int poster = 0; poster < posters; poster++) {
    pthread_join(all[poster].thread, NULL);
    posted += all[poster].posted;
    refused += all[poster].refused;
  }
  if (schedlab_pool_wait(pool, UINT64_MAX) != SCHEDLAB_OK || atomic_load(&done) != posted)
    return 1;
  schedlab_pool_stop(pool, UINT64_MAX, NULL);
  free(all);
  printf("%lu %lu %lu %d %d\n", while_posting, posted, refused, with_cpu, stood_still);
  return 0;
}
