/* Work that nothing was tuned with: work KIND SECONDS STEPS, with STEPS the steps of a millisecond at full speed.
 *
 * loop     steps all the time
 * phases   1.1 ms of steps, 1.1 ms of sleep
 * barrier  two threads on two CPUs that meet after every 0.6 ms of steps
 *
 * Prints: rounds a second, rounds a second in the first second, the part of the time that one thread computed. */

#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* 128 KiB for each thread, so that caches matter; not static, or the compiler may leave them out. */
unsigned tables[2][1 << 15];

static void compute(int thread, long steps)
{
    static _Thread_local unsigned x = 1;
    unsigned *table = tables[thread];
    for (long i = 0; i < steps; i++) {
        x = x * 1664525u + 1013904223u;
        table[x >> 17] += x;
    }
}

struct told {
    double began, first, computed;
    long rounds;
};

/* Notes a round; returns whether the time is over. */
static int note(struct told *told, double seconds)
{
    double passed = now() - told->began;
    told->rounds++;
    if (told->first == 0 && passed >= 1)
        told->first = told->rounds / passed;
    return passed >= seconds;
}

static void tell(const struct told *told)
{
    double passed = now() - told->began;
    printf("%.9g %.9g %.6f\n", told->rounds / passed, told->first, told->computed / passed);
}

static void alone(double seconds, long steps, double sleep)
{
    struct told told = {.began = now()};
    struct timespec pause = {.tv_nsec = (long)(sleep * 1e9)};
    do {
        double before = now();
        compute(0, steps);
        told.computed += now() - before;
        if (sleep > 0)
            nanosleep(&pause, NULL);
    } while (!note(&told, seconds));
    tell(&told);
}

static pthread_barrier_t meeting;
static atomic_long last_round = LONG_MAX;
static double together_seconds;
static long together_steps;

static void bind_to_nth(int n)
{
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all) && n-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            pthread_setaffinity_np(pthread_self(), sizeof one, &one);
        }
    }
}

/* The first thread says before a meeting that it is the last, so both end after the same one. */
static void *together(void *argument)
{
    int thread = argument != NULL;
    bind_to_nth(thread);
    pthread_barrier_wait(&meeting);
    struct told told = {.began = now()};
    for (long round = 0; round <= atomic_load(&last_round); round++) {
        double before = now();
        compute(thread, together_steps);
        told.computed += now() - before;
        if (note(&told, together_seconds) && thread == 0 && round < atomic_load(&last_round))
            atomic_store(&last_round, round);
        pthread_barrier_wait(&meeting);
    }
    if (thread == 0)
        tell(&told);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    double seconds = atof(argv[2]), steps = atof(argv[3]);
    if (strcmp(argv[1], "loop") == 0) {
        alone(seconds, 2000, 0);
    } else if (strcmp(argv[1], "phases") == 0) {
        alone(seconds, steps * 1.1, 1.1e-3);
    } else {
        pthread_t other;
        together_seconds = seconds;
        together_steps = steps * 0.6;
        pthread_barrier_init(&meeting, NULL, 2);
        if (pthread_create(&other, NULL, together, argv) != 0)
            return 1;
        together(NULL);
        pthread_join(other, NULL);
    }
    return 0;
}
