/* schedlab's job pool for C and C++. See docs/jobs-c.md for how to build and link it; schedlab_jobs.hpp has futures and
 * lambdas for C++.
 *
 * Times are nanoseconds on the pool's clock (schedlab_pool_now), which begins when the pool starts. All functions may be
 * called from any thread, from inside jobs too, unless they say otherwise. Callbacks must not throw or longjmp out.
 *
 * Structures that you fill begin with their size: set it to sizeof, and all else to zero. A later version adds members at
 * the end. What an older program does not have means zero; what an older library does not know must be zero.
 */
#ifndef SCHEDLAB_JOBS_H
#define SCHEDLAB_JOBS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. It changes when a program that was built before would no longer work. */
#define SCHEDLAB_JOBS_ABI 2u
/* What the linked library has: compare it with SCHEDLAB_JOBS_ABI. */
uint32_t schedlab_jobs_abi(void);

typedef struct schedlab_pool schedlab_pool;
typedef struct schedlab_context schedlab_context;
typedef struct schedlab_completion schedlab_completion;
/* Refers to a job, and keeps how it ended. Release it; the job runs all the same. */
typedef struct schedlab_handle schedlab_handle;

/* Names a job, also after it ended. It never names another one. */
typedef struct {
  uint64_t place, serial;
} schedlab_job;

/* What functions return. */
enum {
  SCHEDLAB_OK = 0,
  /* The backlog is full: post again when jobs have ended. */
  SCHEDLAB_FULL = 1,
  /* The pool is stopping. */
  SCHEDLAB_CLOSED = 2,
  /* A null pointer, or a value that means nothing. */
  SCHEDLAB_INVALID = 3,
  /* It took longer than the caller was ready to wait. */
  SCHEDLAB_TIMEOUT = 4,
  /* A link names a job that the batch does not have. */
  SCHEDLAB_NO_SUCH_JOB = 5,
  /* Jobs of a batch wait for each other in a circle. */
  SCHEDLAB_CYCLE = 6,
  /* A job cannot wait for its own pool. */
  SCHEDLAB_INSIDE_JOB = 7
};

/* What a job returns. */
enum {
  SCHEDLAB_DONE = 0,
  /* It failed: jobs that depend on it are dropped. */
  SCHEDLAB_FAILED = 1
};

/* How much a job matters when not all can be done. */
enum { SCHEDLAB_NORMAL = 0, SCHEDLAB_OPTIONAL = 1, SCHEDLAB_COMPULSORY = 2 };

/* What happens to a job that is too late when it would start. */
enum {
  SCHEDLAB_LATE_RUN = 0,
  SCHEDLAB_LATE_DROP = 1,
  /* Compulsory jobs run, and optional ones that are due by then are shed; others are dropped. */
  SCHEDLAB_LATE_SHED = 2
};

/* Where a job is, and how it ended. */
enum {
  SCHEDLAB_STATE_WAITING = 0,
  SCHEDLAB_STATE_RUNNING = 1,
  /* It ended; only its handle knows how. */
  SCHEDLAB_STATE_ENDED = 2,
  SCHEDLAB_STATE_DONE = 3,
  SCHEDLAB_STATE_FAILED = 4,
  SCHEDLAB_STATE_CANCELLED = 5,
  /* A job that it depends on did not end well. */
  SCHEDLAB_STATE_DEPENDENCY_FAILED = 6,
  SCHEDLAB_STATE_TOO_LATE = 7,
  SCHEDLAB_STATE_SHED = 8
};

typedef struct {
  /* sizeof(schedlab_pool_options) */
  size_t size;
  /* Number of workers; 0: one for each CPU that the caller may use. */
  uint32_t workers;
  /* SCHEDLAB_LATE_... */
  uint32_t late;
  /* Jobs that may be waiting or running before posting is refused; 0: eight million. */
  uint64_t backlog_max;
  /* Workers are named this and their number; null: "worker". */
  const char *name;
  /* Worker n is bound to entry n modulo cpu_count; no entries: workers are free. */
  const uint32_t *cpus;
  size_t cpu_count;
  /* Nonzero: workers have the nice value below. */
  uint32_t set_nice;
  int32_t nice;
  /* 1 to 99: workers have the policy SCHED_FIFO with this priority; 0: they have not. */
  uint32_t fifo;
  /* Must be zero. */
  uint32_t reserved;
} schedlab_pool_options;

/* A job that is all zero but for its size and run may start now and has no deadline. */
typedef struct {
  /* sizeof(schedlab_posting) */
  size_t size;
  /* Does the job, on a worker's thread: SCHEDLAB_DONE or SCHEDLAB_FAILED. The context is valid until it returns. */
  int (*run)(void *data, schedlab_context *context);
  /* Called once with data, after the job ran or instead of it; may be null. */
  void (*drop)(void *data);
  void *data;
  /* Earliest start. */
  uint64_t start_ns;
  /* By when the job has to be complete; 0: no deadline. */
  uint64_t deadline_ns;
  /* After this it is too late to start; 0: the deadline counts. */
  uint64_t latest_start_ns;
  /* How long the job is expected to run: jobs before it have to end so much before its deadline. */
  uint64_t expected_ns;
  /* Jobs of one stream can be switched off together; stream 0 is always on. */
  uint16_t stream;
  /* SCHEDLAB_NORMAL, SCHEDLAB_OPTIONAL or SCHEDLAB_COMPULSORY */
  uint16_t criticality;
  /* Nonzero: the job ends when its completion is told, after run has returned. */
  uint32_t deferred;
} schedlab_posting;

/* Job `to` of a batch starts after its job `from`; both count from 0. */
typedef struct {
  size_t from, to;
} schedlab_link;

typedef struct {
  /* sizeof(schedlab_counts); the library fills so much. */
  size_t size;
  uint64_t posted, done, failed, cancelled, dependency_failed, too_late, shed;
  /* Too late to start, run or not; started in time and ended after their deadline. */
  uint64_t late_starts, ended_late;
  /* Workers that did not come back in time; of schedlab_pool_stop only. */
  uint64_t stuck;
} schedlab_counts;

/* Starts a pool; null where the options are wrong, or the system gives no threads or refuses a CPU or a priority. */
schedlab_pool *schedlab_pool_start(const schedlab_pool_options *options);
/* Stops taking jobs and cancels what has not started, without waiting: before the stops of several pools. */
int schedlab_pool_close(const schedlab_pool *pool);
/* Closes the pool, waits for the jobs that run, and frees it. UINT64_MAX waits for ever. Not from inside a job. counts
 * may be null. */
int schedlab_pool_stop(schedlab_pool *pool, uint64_t patience_ns, schedlab_counts *counts);
uint64_t schedlab_pool_now(const schedlab_pool *pool);
/* Waits until no job is left. UINT64_MAX waits for ever. Not from inside a job. */
int schedlab_pool_wait(const schedlab_pool *pool, uint64_t patience_ns);
int schedlab_pool_counts(const schedlab_pool *pool, schedlab_counts *counts);

/* Posts a job that starts after those of `after` have ended well; it is dropped if one of them does not. The pool owns
 * data from SCHEDLAB_OK on; otherwise nothing was called and data stays the caller's. handle may be null. */
int schedlab_post(const schedlab_pool *pool, const schedlab_posting *posting, schedlab_handle *const *after,
                  size_t after_count, schedlab_handle **handle);
/* Posts jobs with links between them: all of them or none. handles is null or has room for one of each job. */
int schedlab_post_batch(const schedlab_pool *pool, const schedlab_posting *postings, size_t count,
                        const schedlab_link *links, size_t link_count, schedlab_handle **handles);

/* Waits until the job has ended. UINT64_MAX waits for ever. Inside a job, the worker runs others meanwhile. */
int schedlab_handle_wait(const schedlab_handle *handle, uint64_t patience_ns);
/* SCHEDLAB_STATE_... */
int schedlab_handle_state(const schedlab_handle *handle);
/* Drops a job that has not started, and all that depend on it: 1, or 0 if it has started. */
int schedlab_handle_cancel(const schedlab_handle *handle);
schedlab_job schedlab_handle_job(const schedlab_handle *handle);
void schedlab_handle_release(schedlab_handle *handle);

/* As for handles. A job that ended answers SCHEDLAB_STATE_ENDED, however long ago that was. */
int schedlab_cancel(const schedlab_pool *pool, schedlab_job job);
int schedlab_state(const schedlab_pool *pool, schedlab_job job);

/* Drops the jobs of a stream when their turn comes, and later ones too, until it is on again. */
void schedlab_stream_off(const schedlab_pool *pool, uint16_t stream);
void schedlab_stream_on(const schedlab_pool *pool, uint16_t stream);

/* The number of the worker that runs the job, from 0. */
uint32_t schedlab_context_worker(const schedlab_context *context);
/* What ends a deferred job; null for others, and at the second call. It must be told once, by one of the two functions
 * below, from any thread. */
schedlab_completion *schedlab_context_completion(schedlab_context *context);
void schedlab_complete(schedlab_completion *completion);
void schedlab_fail(schedlab_completion *completion);

#ifdef __cplusplus
}
#endif

#endif
