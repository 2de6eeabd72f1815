// A holder of a lock that a hog displaces, while others wait for the lock. It prints the holder's number, the hog's, and how
// long the waiters waited while the holder had no CPU: their number times the time that the hog measures of itself. What a
// hypervisor takes from the holder is no part of it: no event tells of that.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WAITERS = 3 };

static const char *how;
static pthread_mutex_t mutex;
static atomic_int word, marker = -1;
static atomic_int held, waiting, displace, done, hog;
static atomic_long hogged;

static long now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

// Real-time priorities: nothing else on this machine gets between them.
static void be(int cpu, int priority) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    struct sched_param order = {.sched_priority = priority};
    if (sched_setaffinity(0, sizeof set, &set) || sched_setscheduler(0, SCHED_FIFO, &order)) {
        perror("SCHED_FIFO");
        exit(1);
    }
}

static int is(const char *name) { return strcmp(how, name) == 0; }

static void mark(const char *text) {
    if (write(marker, text, strlen(text)) < 0) {
        perror("trace_marker");
        exit(1);
    }
}

static void take(void) {
    if (!is("spin")) {
        pthread_mutex_lock(&mutex);
        return;
    }
    int expected = 0;
    mark("begin lock-wait:planted");
    while (!atomic_compare_exchange_weak(&word, &expected, 1)) {
        expected = 0;
        // They share a CPU, so they spin as PostgreSQL does after some tries.
        usleep(1000);
    }
    mark("end lock-wait:planted");
    mark("begin lock:planted");
}

static void give(void) {
    if (!is("spin")) {
        pthread_mutex_unlock(&mutex);
        return;
    }
    mark("end lock:planted");
    atomic_store(&word, 0);
}

static void *displaces(void *nothing) {
    be(0, 11);
    atomic_store(&hog, (int)syscall(SYS_gettid));
    while (!atomic_load(&displace)) usleep(100);
    while (!atomic_load(&done)) {
        long began = now(CLOCK_MONOTONIC), time;
        do time = now(CLOCK_MONOTONIC) - began;
        while (time < 5000000L);
        atomic_fetch_add(&hogged, time);
        usleep(5000);
    }
    return nothing;
}

static void *waits(void *nothing) {
    be(1, 10);
    while (!atomic_load(&held)) usleep(100);
    atomic_fetch_add(&waiting, 1);
    if (is("spin")) mark("begin request");
    take();
    give();
    if (is("spin")) mark("end request");
    return nothing;
}

int main(int count, char **words) {
    how = count > 1 ? words[1] : "mutex";
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    if (is("inherit")) pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&mutex, &kind);
    if (is("spin")) {
        marker = open("/sys/kernel/tracing/trace_marker", O_WRONLY);
        if (marker < 0) return perror("trace_marker"), 1;
    }
    pthread_t threads[WAITERS + 1];
    pthread_create(&threads[WAITERS], NULL, displaces, NULL);
    for (int one = 0; one < WAITERS; one++) pthread_create(&threads[one], NULL, waits, NULL);
    while (!atomic_load(&hog)) usleep(100);
    be(0, 10);
    usleep(1000);
    take();
    atomic_store(&held, 1);
    // All of them wait before the time counts.
    while (atomic_load(&waiting) < WAITERS) usleep(100);
    usleep(20000);
    long ran = now(CLOCK_THREAD_CPUTIME_ID);
    atomic_store(&displace, 1);
    while (now(CLOCK_THREAD_CPUTIME_ID) - ran < 40000000L) {
    }
    long cost = atomic_load(&hogged) * WAITERS;
    give();
    atomic_store(&done, 1);
    for (int one = 0; one <= WAITERS; one++) pthread_join(threads[one], NULL);
    printf("%ld %d %ld\n", syscall(SYS_gettid), atomic_load(&hog), cost);
    return 0;
}
