/* schedlab's job pool for C and C++. See docs/jobs-c.md for how to build and link it.
 *
 * Times are nanoseconds on the pool's clock (schedlab_pool_now), which begins when the pool starts. All functions may be
 * called from any thread, from inside jobs too, unless they say otherwise. Callbacks must not throw or longjmp out.
 */
#ifndef SCHEDLAB_JOBS_H
#define SCHEDLAB_JOBS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. It changes when a program that was built before would no longer work. */
#define SCHEDLAB_JOBS_ABI 1u
/* What the linked library has: compare it with SCHEDLAB_JOBS_ABI. */
uint32_t schedlab_jobs_abi(void);

/* A start or deadline that never comes. */
#define SCHEDLAB_NEVER UINT64_MAX

typedef struct schedlab_pool schedlab_pool;
typedef struct schedlab_context schedlab_context;
typedef struct schedlab_completion schedlab_completion;

/* Names a job, also after it ended; 0 names none. */
typedef uint64_t schedlab_job;

/* What functions return. */
enum {
  SCHEDLAB_OK = 0,
  /* The backlog is full: post again when jobs have ended. */
  SCHEDLAB_FULL = 1,
  /* The pool is shutting down. */
  SCHEDLAB_CLOSED = 2,
  /* A null pointer, an unknown significance, an id that no job has. */
  SCHEDLAB_INVALID = 3,
  /* It took longer than the caller was ready to wait. */
  SCHEDLAB_TIMEOUT = 4
};

/* What a job returns. */
enum {
  SCHEDLAB_DONE = 0,
  /* It failed: jobs that depend on it are dropped. */
  SCHEDLAB_FAILED = 1,
  /* It goes on elsewhere, until the completion that it took is told. */
  SCHEDLAB_PENDING = 2
};

/* How much a job matters. */
enum { SCHEDLAB_OPTIONAL = 0, SCHEDLAB_NORMAL = 1, SCHEDLAB_COMPULSORY = 2 };

/* What became of a job. */
enum { SCHEDLAB_FATE_LIVE = 0, SCHEDLAB_FATE_DONE = 1, SCHEDLAB_FATE_FAILED = 2 };

/* Which of the jobs that are due goes first; compulsory ones go before all others. */
enum {
  SCHEDLAB_ORDER_START = 0,
  SCHEDLAB_ORDER_DEADLINE = 1,
  SCHEDLAB_ORDER_LAXITY = 2
};

typedef struct {
  /* At least 1. */
  uint32_t workers;
  /* Workers that run compulsory jobs only; less than workers. */
  uint32_t reserve;
  /* SCHEDLAB_ORDER_... */
  uint32_t order;
  /* Nonzero: workers are not bound to CPUs of their own. */
  uint32_t unbound;
} schedlab_pool_options;

typedef struct {
  /* Does the job, on a worker's thread. The context is valid until it returns. */
  int (*run)(void *data, schedlab_context *context);
  /* Called once with data, after the job ran or instead of it; may be null. */
  void (*drop)(void *data);
  void *data;
  /* Earliest start. */
  uint64_t start_ns;
  /* Latest start, or SCHEDLAB_NEVER. */
  uint64_t deadline_ns;
  /* How long it is expected to run, or 0. */
  uint64_t expected_ns;
  /* Jobs of one stream can be dropped together; stream 0 is always on. */
  uint16_t stream;
  /* SCHEDLAB_OPTIONAL ... SCHEDLAB_COMPULSORY */
  uint16_t significance;
} schedlab_posting;

typedef struct {
  uint64_t posted, done, missed, shed, cancelled, abandoned, panicked, failed, emergencies;
  /* Workers that did not come back in time. */
  uint64_t stuck;
} schedlab_counts;

/* Starts a pool; null where the options are wrong or the system gives no threads. */
schedlab_pool *schedlab_pool_start(const schedlab_pool_options *options);
/* Ends the workers after the jobs that they run, waits for them, and frees the pool. Jobs that have not started are
 * dropped. Not from inside a job. counts may be null. */
int schedlab_pool_stop(schedlab_pool *pool, uint64_t patience_ns, schedlab_counts *counts);
uint64_t schedlab_pool_now(const schedlab_pool *pool);
/* Waits until no job is left: SCHEDLAB_OK or SCHEDLAB_TIMEOUT. Not from inside a job. */
int schedlab_pool_wait(const schedlab_pool *pool, uint64_t patience_ns);

/* Posts a job that starts after those of `after` have ended well; it is dropped when one of them fails. The pool owns
 * data from SCHEDLAB_OK on; otherwise nothing was called and data stays the caller's. id may be null. */
int schedlab_post(const schedlab_pool *pool, const schedlab_posting *posting, const schedlab_job *after,
                  size_t after_count, schedlab_job *id);
/* Drops a job that has not started, and all that depend on it: 1, or 0 when it is running or has ended. */
int schedlab_cancel(const schedlab_pool *pool, schedlab_job id);
/* SCHEDLAB_FATE_..., the same answer however long ago the job ended. */
int schedlab_fate(const schedlab_pool *pool, schedlab_job id);
/* Drops the jobs of a stream, and later ones when they are posted, until it is on again. Returns how many. */
uint64_t schedlab_stream_off(const schedlab_pool *pool, uint16_t stream);
void schedlab_stream_on(const schedlab_pool *pool, uint16_t stream);

/* The number of the worker that runs the job, from 0. */
uint32_t schedlab_context_worker(const schedlab_context *context);
/* What ends this job later. It must be told once, by one of the two functions below, from any thread. */
schedlab_completion *schedlab_context_completion(schedlab_context *context);
void schedlab_complete(schedlab_completion *completion);
void schedlab_fail(schedlab_completion *completion);

#ifdef __cplusplus
}
#endif

#endif
