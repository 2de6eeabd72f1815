/* Work that nothing was tuned with: work KIND ROUNDS STEPS PARTS, with STEPS the steps of a millisecond at full speed.
 *
 * loop     2000 steps a round
 * phases   1.1 ms of steps, 1.1 ms of sleep
 * short    0.1 ms of steps, 1.1 ms of sleep
 * barrier  two threads on two CPUs that meet after every 0.6 ms of steps
 *
 * Prints when it began (CLOCK_MONOTONIC, in seconds), the seconds that had passed at each of PARTS equal parts of the
 * rounds, and the part of the time that its first thread had a CPU, by that thread's clock. */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static double now(void)
{
    return read_clock(CLOCK_MONOTONIC);
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
    double began, cpu, *times;
    long done, rounds, parts;
};

static long all_parts;

static struct told begin(long rounds)
{
    double *times = calloc(all_parts, sizeof *times);
    if (times == NULL)
        exit(1);
    return (struct told){.rounds = rounds, .times = times, .began = now(),
                         .cpu = read_clock(CLOCK_THREAD_CPUTIME_ID)};
}

/* Notes a round. */
static void note(struct told *told)
{
    told->done++;
    while (told->parts < all_parts && told->done * all_parts >= (told->parts + 1) * told->rounds)
        told->times[told->parts++] = now() - told->began;
}

static void tell(const struct told *told)
{
    printf("%.9f ", told->began);
    for (long part = 0; part < all_parts; part++)
        printf("%.9f ", told->times[part]);
    double cpu = read_clock(CLOCK_THREAD_CPUTIME_ID) - told->cpu;
    printf("%.6f\n", cpu / (now() - told->began));
}

static void alone(long rounds, long steps, double sleep)
{
    struct told told = begin(rounds);
    struct timespec pause = {.tv_nsec = (long)(sleep * 1e9)};
    while (told.done < rounds) {
        compute(0, steps);
        if (sleep > 0)
            nanosleep(&pause, NULL);
        note(&told);
    }
    tell(&told);
}

static pthread_barrier_t meeting;
static long together_rounds, together_steps;

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

static void *together(void *argument)
{
    int thread = argument != NULL;
    bind_to_nth(thread);
    pthread_barrier_wait(&meeting);
    struct told told = begin(together_rounds);
    while (told.done < together_rounds) {
        compute(thread, together_steps);
        pthread_barrier_wait(&meeting);
        note(&told);
    }
    if (thread == 0)
        tell(&told);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    all_parts = atol(argv[4]);
    long rounds = atol(argv[2]);
    double steps = atof(argv[3]);
    if (strcmp(argv[1], "loop") == 0) {
        alone(rounds, 2000, 0);
    } else if (strcmp(argv[1], "phases") == 0) {
        alone(rounds, steps * 1.1, 1.1e-3);
    } else if (strcmp(argv[1], "short") == 0) {
        alone(rounds, steps * 0.1, 1.1e-3);
    } else {
        pthread_t other;
        together_rounds = rounds;
        together_steps = steps * 0.6;
        pthread_barrier_init(&meeting, NULL, 2);
        if (pthread_create(&other, NULL, together, argv) != 0)
            return 1;
        together(NULL);
        pthread_join(other, NULL);
    }
    return 0;
}
